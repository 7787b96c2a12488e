"""File formats.

    reading       readers of data files, chosen by file extension
    score_files   readers of score files, chosen by content
    letor         LETOR text and LightGBM's files
    table         tables with named columns
    trec          TREC runs and qrels
    ranklib       RankLib's files of scores and of metrics per query
    scores        files of one score per line

Modules that the readers share:

    compression   compressed files
    gathering     grouping of rows by query
    options       checks of arguments
    units         pieces of a text file that all cores process at the same time
"""
