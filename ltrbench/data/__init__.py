"""Data: the frozen RankingDataset, its sources, its splits by query, and files.

dataset              RankingDataset: documents with features and labels, in queries
grades               labels that are small whole numbers
query_keys           keys of queries by their content
formats              readers and writers of files
splits               train, validation and test by query
training_resamples   resamples of the training queries
sources              what the YAMLs of conf/data name
synthetic            the built-in data set, from a seed
"""

from ltrbench.data.dataset import Judgments, RankingDataset
from ltrbench.data.formats.letor.feature_names import read_feature_names, write_feature_names
from ltrbench.data.formats.letor.reader import read_letor
from ltrbench.data.formats.letor.writer import write_letor, write_lightgbm
from ltrbench.data.formats.reading import read_data, read_features
from ltrbench.data.formats.score_files import read_score_file
from ltrbench.data.formats.table.tables import read_table, to_frame, write_table
from ltrbench.data.formats.trec import read_qrels, read_trec_run
from ltrbench.data.splits import Splits, folds, sample_queries, split_queries
from ltrbench.data.training_resamples import TrainingResample

__all__ = [
    "Judgments",
    "RankingDataset",
    "Splits",
    "TrainingResample",
    "folds",
    "read_data",
    "read_feature_names",
    "read_features",
    "read_letor",
    "read_qrels",
    "read_score_file",
    "read_table",
    "read_trec_run",
    "sample_queries",
    "split_queries",
    "to_frame",
    "write_feature_names",
    "write_letor",
    "write_lightgbm",
    "write_table",
]
