"""Statistics of training that was repeated: on folds, under several seeds, on resampled training sets."""
