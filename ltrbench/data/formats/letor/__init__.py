"""LETOR text, in LETOR's form and in LightGBM's.

line            parser of one line: the specification of the format
blocks          parser of blocks of lines
reader          reader of data sets
writer          writer of data sets
lightgbm        LightGBM's companion files of a data file
feature_names   files of feature names
"""
