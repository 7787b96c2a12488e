"""LETOR text, in LETOR's form and in LightGBM's.

line            parser of one line: the specification of the format
kernels         compiled loops over the bytes of lines
blocks          parser of blocks of lines
sizes           counts of documents and features
rows            arrays for the documents, and the memory they need
reader          reader of data sets
writer          writer of data sets
lightgbm        LightGBM's companion files of a data file
feature_names   files of feature names
"""
