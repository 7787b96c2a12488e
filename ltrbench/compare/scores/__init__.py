"""Scores that were not computed by a run of ltrbench.

derived            runs with the data of an existing run and other scores
imported           scores of any system
imported_models    model files of other libraries
fusion             several runs fused into one ranking
fused_scores       parts and weights of a fused score
"""
