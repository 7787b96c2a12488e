"""Models in the formats of search engines and libraries, with a certificate that the rankings are the same.

    model                       the model that is shipped
    target                      the contract of a target
    targets                     a file for each target
    learning_to_rank_plugins    the export to the plug-ins of Elasticsearch and OpenSearch
    plugin_definitions          models as these plug-ins read and score them
    certificate                 comparison of the converted model with the original

A target writes the files, and says how its engine evaluates them: the engine itself if it is a Python
package, otherwise a simulator of it, with the sources of its rules.
"""
