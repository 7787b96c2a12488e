"""Parity: whether the native engine reproduces the libraries by settings alone.

`python -m ltrbench experiment=parity` runs `ParityStudy`, which trains, measures and writes one table.

    rows       rows of the table: compared results, tolerance with its reason, measured difference
    peers      common bins, and comparison of the trees of two rankers
    goldens    golden files: lambdas, trees and metrics from the libraries
    study      the study and its output files

To add a comparison, write a function that returns its rows and call it in `ParityStudy.run`.
"""

from ltrbench.studies.parity.study import ParityStudy as ParityStudy
