"""Tables with named columns.

cells           parsing of cells: numbers, ids and missing values
csv_files       CSV files
frame           DataFrames and Parquet files
split_columns   columns by which queries are split: times, and groups of near-duplicates
tables          conversion between tables and data sets
"""
