import fgrad

outer = fgrad.tree.structure([0, 0])
inner = fgrad.tree.structure({"a": 0})
fgrad.tree_util.tree_transpose(outer, inner, [{"a": 1}, {"b": 2}])
