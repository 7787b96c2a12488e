"""Objectives: functions from scores to gradients and hessians, in the dialect of every library.

In reading order:

    base           the form of an objective: one dataclass in one file, here or outside the package
    query_kernels  the loop over queries, random numbers and gains, for objectives in this form
    query_rmse, query_softmax  losses of CatBoost
    yetirank       YetiRank and YetiLoss, with their specification
    stochastic_rank  smoothed DCG and NDCG
    lambdaloss     LambdaLoss, by three formulas
    listnet        ListNet and the softmax loss
    listmle        ListMLE
    approx_ndcg    ApproxNDCG
    cross_entropy  xendcg
    squared_error  mart
    hinge          ranking SVM
    lambdarank     lambdarank and ranknet, whose settings `lambdas` and `pairs` take
    lambdas        gradients and hessians of NDCG, with the fast kernel for default settings; `prepare`, which
                   returns every objective
    pairs          dialects of implementations; the specification of the lambdas of one query, pair by pair;
                   the change of a metric by a swap; the compiled kernel for all pairwise objectives
    position_bias  correction of clicks for position bias, by a bias term or by weights of pairs
"""
