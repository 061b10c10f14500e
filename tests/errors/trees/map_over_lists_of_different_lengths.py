import fgrad

fgrad.tree.map(lambda a, b: a + b, {"layers": [1, 2, 3]}, {"layers": [1, 2]})
