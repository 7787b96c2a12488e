"""Analysis of a comparison.

recommendation   the models to take, and how certain that is
verdict          the claims in a few sentences
methods          the statistical methods in words
next_step        the command that would allow a claim
slices           differences by kinds of queries
across           tests over several data sets
aa               each model against itself
tuning           searches: budgets, tunability, importance of settings, settings as good as the chosen
importances      features of several models side by side
"""
