"""Tracking: where runs are shown. The contract is in `base.py`; each tracker is one file, imported by its
YAML only."""

from ltrbench.tracking.base import NoTracking, Tracker

__all__ = ["NoTracking", "Tracker"]
