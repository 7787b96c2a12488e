"""Tables with named columns: `cells` says what a cell holds, `csv_files` reads CSV files, `frame` reads
DataFrames and Parquet files, and `tables` makes data sets of them and writes data sets as tables."""
