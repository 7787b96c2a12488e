"""Data: the immutable RankingDataset, data sources, splits by query, and file formats.

dataset              RankingDataset: features and labels of documents, grouped by query
grades               fast loops over small integer labels
query_keys           content-based keys of queries
features             features that are not one array in memory
formats              file readers and writers
fetching             download of published data sets
splits               training, validation and test sets, split by query
training_resamples   resamples of the training queries
store                a data set as arrays in a folder, which is opened instead of parsed
sources              data sources that the YAMLs of conf/data instantiate
synthetic            built-in synthetic data set
"""

from ltrbench.data.dataset import Judgments, RankingDataset
from ltrbench.data.formats.letor.feature_names import read_feature_names, write_feature_names
from ltrbench.data.formats.letor.reader import read_letor
from ltrbench.data.formats.letor.writer import write_letor, write_lightgbm
from ltrbench.data.formats.reading import read_data, read_features
from ltrbench.data.formats.score_files import read_score_file
from ltrbench.data.formats.table.tables import read_table, to_frame, write_table
from ltrbench.data.formats.trec import read_qrels, read_trec_run
from ltrbench.data.splits import Splits, folds, sample_queries, split_latest, split_queries
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
    "split_latest",
    "split_queries",
    "to_frame",
    "write_feature_names",
    "write_letor",
    "write_lightgbm",
    "write_table",
]
