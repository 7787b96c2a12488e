"""Targets of `ship` for tests; a file each, as in ltrbench/shipping/targets."""
