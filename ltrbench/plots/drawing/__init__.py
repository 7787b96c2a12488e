"""What all pictures share.

panels   sizes, title, panels, legend
series   what a picture shows: a row of a comparison with its runs
styles   one colour and marker for each backend
labels   labels beside their points
"""
