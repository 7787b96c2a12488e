"""Data: the frozen RankingDataset, what reads it from files or makes it up, and its splits by query."""

from ltrbench.data.dataset import Judgments, RankingDataset
from ltrbench.data.letor import read_letor
from ltrbench.data.splits import Splits, split_queries

__all__ = ["Judgments", "RankingDataset", "Splits", "read_letor", "split_queries"]
