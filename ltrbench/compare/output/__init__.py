"""A comparison written to files.

tables      text and Markdown, LaTeX, HTML, CSV, DataFrame
record      one JSON object: comparison.json
report      one HTML page: report.html
publish     the folder with all of these, pictures and values of queries
reproduce   whether a rerun gives the committed results
"""
