"""Tables with named columns.

cells           parsing of cells: numbers, ids and missing values
csv_text        text of CSV files, in blocks of lines and rows of cells
csv_files       CSV files
frame           DataFrames
parquet_files   Parquet files
filling         features: allocated once, filled block by block
split_columns   columns by which queries are split: times, and groups of near-duplicates
tables          conversion between tables and data sets
"""
