"""Functions over pytrees under short names: `fgrad.tree.map` is `fgrad.tree_util.tree_map`, and
so on.
"""

from fgrad.trace.frames import trim_public
from fgrad.tree_util import tree_all as all
from fgrad.tree_util import tree_broadcast as broadcast
from fgrad.tree_util import tree_flatten as flatten
from fgrad.tree_util import tree_flatten_with_path as flatten_with_path
from fgrad.tree_util import tree_leaves as leaves
from fgrad.tree_util import tree_leaves_with_path as leaves_with_path
from fgrad.tree_util import tree_map as map
from fgrad.tree_util import tree_map_with_path as map_with_path
from fgrad.tree_util import tree_reduce as reduce
from fgrad.tree_util import tree_reduce_associative as reduce_associative
from fgrad.tree_util import tree_structure as structure
from fgrad.tree_util import tree_transpose as transpose
from fgrad.tree_util import tree_unflatten as unflatten

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path",
    "reduce", "reduce_associative", "structure", "transpose", "unflatten",
]  # fmt: skip

trim_public(globals(), __all__)
