"""Data: the frozen RankingDataset, what reads it from files, what makes it up, and how it is split by query."""

from ltrbench.data.dataset import Judgments, RankingDataset
from ltrbench.data.splits import Splits, split_queries

__all__ = ["Judgments", "RankingDataset", "Splits", "split_queries"]
