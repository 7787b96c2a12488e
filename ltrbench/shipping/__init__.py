"""Models in the formats of search engines and libraries, with a certificate that the rankings are the same.

    model          the model that is shipped
    target         the contract of a target
    targets        a file for each target
    requests       rows with expected scores as requests of an engine
    simulators     evaluators of engines that are not Python packages
    lookup         finds the target of a name
    from_run       the shipped model of a run
    certificate    comparison of the converted model with the original
    shipment       converts a model, and writes it with its certificate
    readme         the README of the folder
    folder         writes and reads the folder of a shipped model
    answers        compares what a deployed engine answered with the expected scores

A target writes the files, and says how its engine evaluates them: the engine itself if it is a Python
package, otherwise a simulator of it, with the sources of its rules.
"""
