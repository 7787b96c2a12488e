"""Parity: whether the native engine, by settings alone, learns what the libraries learn.

`ParityStudy` is what `python -m ltrbench experiment=parity` runs: it trains, measures and writes one table.

    rows       a claim: what is held against what, the tolerance with its reason, and what was measured
    peers      bins in common, and the trees of two rankers side by side
    goldens    lambdas, trees and figures that the peers themselves once put out, in files
    study      the rows of all that, and the files they end in

To add a claim, write a function that gives its rows and name it in `ParityStudy.run`.
"""

from ltrbench.studies.parity.study import ParityStudy as ParityStudy
