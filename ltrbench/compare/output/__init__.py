"""Writes a comparison to files.

published         published values of a data set, beside the rows under the same convention
tables            text and Markdown, LaTeX, HTML, CSV, DataFrame
record            one JSON object: comparison.json
report            one HTML page: report.html
search_pictures   pictures of searches: budgets, importance of settings, slices of the space
publish           the folder with all files, pictures and values by query
reproduce         comparison of a rerun with the committed results
"""
