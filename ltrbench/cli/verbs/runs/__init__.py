"""Verbs on one run or on the tracking store.

show      prints a run
predict   scores a data file with the model of a run
trees     prints the trees of the model of a run
export    writes the scores of a run in formats of other tools
import_   writes the scores of any system as a run folder
ship      converts the model of a run for a search engine, with a certificate
serve     ranks documents over HTTP with the model of a run
ui        opens the MLflow UI
models    not a verb: loads the model and the data of a run
"""
