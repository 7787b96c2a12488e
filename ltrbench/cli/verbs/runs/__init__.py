"""Verbs on one run, or on the place where runs are tracked.

show      one run, from its folder
predict   the run's model scores a file of data
trees     the trees of the run's model
export    the run's scores as files of other tools
import_   the scores of any system as a run folder
ui        the MLflow UI
models    no verb: loads the model of a run
"""
