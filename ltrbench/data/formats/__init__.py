"""File formats: LETOR text in `letor`, tables in `table`, and a module each for TREC files (`trec`), files of
RankLib (`ranklib`) and scores, one a line (`scores`).

`reading` reads any file of features by its ending, `score_files` any file of scores by its content. What the
readers share is in `compression` (packed files), `gathering` (rows brought together by query) and `options`
(checks of arguments).
"""
