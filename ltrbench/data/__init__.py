"""Data: the immutable RankingDataset, data sources, splits by query, and file formats.

dataset          RankingDataset: features and labels of documents, grouped by query; keys of queries
features         features that are not one array in memory
store            a data set as arrays in a folder, opened instead of parsed; the cache of parsed files
blocks           compressed files, read by blocks of lines; grouping of rows by query
letor            LETOR text, feature names and LightGBM's companion files; `letor_kernels` parses lines
tables           reads and writes tables with named columns
score_files      files of scores and judgments: plain, TREC, RankLib
splits           training, validation and test sets, and resamples of the training set, by query
sources          data sources that the YAMLs of conf/data instantiate, the format of a file, and downloads
synthetic        built-in synthetic data set
"""

from ltrbench.data.dataset import Judgments, RankingDataset
from ltrbench.data.letor import read_feature_names, read_letor, write_letor
from ltrbench.data.score_files import read_qrels, read_score_file, read_trec_run
from ltrbench.data.sources import read_data, read_features
from ltrbench.data.splits import (
    Splits,
    TrainingResample,
    click_weighted,
    folds,
    sample_queries,
    split_latest,
    split_queries,
)
from ltrbench.data.store import write_store
from ltrbench.data.tables import read_table, write_table

__all__ = [
    "Judgments",
    "RankingDataset",
    "Splits",
    "TrainingResample",
    "click_weighted",
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
    "split_latest",
    "split_queries",
    "write_letor",
    "write_store",
    "write_table",
]
