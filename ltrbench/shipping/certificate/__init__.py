"""Certificates: comparison of a converted model with the original.

probes        rows of features that test where conversions break
rounding      by how much the sums of a model may differ by rounding
comparison    scores and rankings of the converted model against those of the original
limits        values that an engine cannot treat as the model does
differences   rows with another score, by kind, with the first example
record        the certificate, and its form in certificate.json
verdict       certified or refused, and the reason in words
certifying    makes the certificate of a converted model
check_rows    documents with expected scores, to check a deployed engine
"""
