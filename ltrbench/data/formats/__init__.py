"""File formats.

    reading       reads any file of features, by its ending
    score_files   reads any file of scores, by its content
    letor         LETOR text, and LightGBM's files
    table         tables with named columns
    trec          TREC's runs and qrels
    ranklib       RankLib's files of scores and figures
    scores        files of one score a line

and what the readers share:

    compression   packed files
    gathering     rows brought together by query
    options       checks of arguments
"""
