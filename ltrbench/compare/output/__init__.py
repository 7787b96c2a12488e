"""Writes a comparison to files.

tables      text and Markdown, LaTeX, HTML, CSV, DataFrame
record      one JSON object: comparison.json
report      one HTML page: report.html
publish     the folder with all files, pictures and values by query
reproduce   comparison of a rerun with the committed results
"""
