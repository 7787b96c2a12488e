"""The targets of `ship`: a file for each, named as in `--to`, with one class that derives from `Target`."""
