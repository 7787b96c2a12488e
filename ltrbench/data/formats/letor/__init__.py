"""LETOR text, in LETOR's form and in LightGBM's.

line            one line: the specification of the format
blocks          many lines at once
reader          whole data sets, read
writer          whole data sets, written
lightgbm        the files of LightGBM beside a data file
feature_names   files of feature names
"""
