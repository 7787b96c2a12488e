"""Scores that no run of ours computed under this comparison's settings: evaluated again, imported, fused."""
