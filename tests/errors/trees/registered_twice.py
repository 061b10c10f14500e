import fgrad


@fgrad.tree_util.register_pytree_node_class
class Point:
    def tree_flatten(self):
        return (), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls()


fgrad.tree_util.register_pytree_node_class(Point)
