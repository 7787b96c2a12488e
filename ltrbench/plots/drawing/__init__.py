"""Elements that all pictures share.

panels   sizes, title, panels, legend
series   a row of a comparison with its runs
styles   one color and marker per backend
labels   labels beside points
"""
