"""Models in the formats of search engines and libraries, with a certificate that the rankings are the same.

    target            the contract of a target, the model that is shipped, and the arithmetic of engines
    targets           a file for each target
    certificate       rows that test a conversion, and comparison of the converted model with the original
    destination       the target that models are trained for, which refuses settings before a fit
    shipment          converts the model of a run, writes it with its certificate, reads answers of an engine

A target writes the files, and says how its engine evaluates them: the engine itself if it is a Python
package, otherwise a simulator of it, which follows its source code.
"""
