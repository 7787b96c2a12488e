"""What a comparison says: verdict, methods in words, slices, several data sets, importances, next step."""
