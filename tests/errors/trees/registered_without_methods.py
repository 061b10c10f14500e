import fgrad


@fgrad.tree_util.register_pytree_node_class
class Point:
    pass
