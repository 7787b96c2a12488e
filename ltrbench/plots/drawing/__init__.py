"""What all pictures share: panels, one look for each backend, series of runs, labels."""
