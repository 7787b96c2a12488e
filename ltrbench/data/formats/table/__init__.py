"""Tables with named columns.

cells       parsing of cells: numbers, ids and missing values
csv_files   CSV files
frame       DataFrames and Parquet files
tables      conversion between tables and data sets
"""
