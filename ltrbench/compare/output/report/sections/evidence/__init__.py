"""Sections on what may be claimed, and on what the claims rest."""
