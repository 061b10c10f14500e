import fgrad

fgrad.tree.map(lambda a, b: a + b, {"sizes": (1, 2)}, {"sizes": [1, 2]})
