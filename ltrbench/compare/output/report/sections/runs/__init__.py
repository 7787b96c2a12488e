"""Sections on the runs: quality by cutoff and iteration, costs, features, settings, data, notes."""
