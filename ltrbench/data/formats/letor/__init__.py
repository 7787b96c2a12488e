"""LETOR text, in LETOR's form and in LightGBM's: `line` specifies a line, `blocks` reads many lines at once,
`reader` and `writer` take whole data sets, `lightgbm` and `feature_names` the files beside a data file."""
