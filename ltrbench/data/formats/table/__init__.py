"""Tables with named columns.

cells       what a cell holds
csv_files   CSV files
frame       DataFrames and Parquet files
tables      tables to data sets, and data sets to tables
"""
