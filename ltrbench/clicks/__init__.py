"""Clicks: from a log of shown lists to comparisons of rankers without position bias.

log            reads the log: CSV, Parquet and User Behavior Insights; the checks of its rows
propensities   how likely a position is examined, from the log, with the influence of each impression
estimators     expected clicks of a ranking and its variants, per query
checks         whether the log supports a claim: prediction of held-out rankers, weights, effective queries
source         the data source of `data=clicks`
simulation     logs with their truth, and the data source of `data=click_simulation`
interleaving   two rankers in one list: lists, preference with intervals, number of sessions

The position-based model is P(click) = theta_k g_qd: the user examines position k with probability theta_k,
and then clicks document d of query q with its attraction g_qd. Theta is known up to a factor, and theta_0 is
1.
"""
