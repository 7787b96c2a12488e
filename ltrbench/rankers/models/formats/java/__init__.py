"""Model files of engines in Java.

ranklib_xml     RankLib's models of LambdaMART and MART
solr            models of Apache Solr's Learning to Rank module
numbers         numbers, as these engines read them
"""
