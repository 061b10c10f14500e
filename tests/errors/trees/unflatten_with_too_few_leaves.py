import fgrad

leaves, structure = fgrad.tree.flatten({"a": 1, "b": 2})
fgrad.tree.unflatten(structure, leaves[:1])
