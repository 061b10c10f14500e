"""Pytrees: flattening, paths, registered classes."""

import dataclasses
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import errors, flatten_util, tree, tree_util

Point = namedtuple("Point", "x y")
TREE = {"b": [1, (2, None)], "a": Point(3, {"z": 4})}


def test_dictionaries_are_ordered_by_key_and_none_is_empty() -> None:
    leaves, treedef = tree_util.tree_flatten(TREE)
    assert leaves == [3, 4, 1, 2]
    assert tree_util.tree_unflatten(treedef, leaves) == TREE
    assert tree.map(lambda x, y: x + y, TREE, TREE)["b"] == [2, (4, None)]


def test_paths_name_every_leaf() -> None:
    pairs, _ = tree_util.tree_flatten_with_path(TREE)
    assert [tree_util.keystr(p) for p, _ in pairs] == ["['a'].x", "['a'].y['z']", "['b'][0]", "['b'][1][0]"]
    assert tree_util.keystr(pairs[1][0], simple=True, separator="/") == "a/y/z"
    named = tree.map_with_path(lambda p, x: f"{tree_util.keystr(p)}={x}", TREE)
    assert named["a"].x == "['a'].x=3"


def test_leaves_are_combined_in_order_and_pairwise() -> None:
    assert tree.reduce(lambda a, b: a - b, [10, 1, 2]) == 7
    assert tree.reduce(lambda a, b: a + [b], [1, 2], []) == [1, 2]
    assert tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcde")) == "(((ab)(cd))e)"
    assert tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(errors.ArgumentError, match="identity="):
        tree.reduce_associative(max, [])
    assert tree.all([True, 1]) and not tree.all({"a": 0})


def test_trees_are_transposed_and_broadcast() -> None:
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    assert tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]) == {"a": [1, 3], "b": [2, 4]}
    assert tree.broadcast(7, {"a": 1, "b": [2, 3]}) == {"a": 7, "b": [7, 7]}


def test_structures_are_taken_apart() -> None:
    treedef = tree.structure([1, {"a": 2}])
    children = tree_util.treedef_children(treedef)
    assert tree_util.treedef_is_leaf(children[0]) and not tree_util.treedef_is_leaf(children[1])
    assert tree_util.treedef_tuple(children) == tree.structure((1, {"a": 2}))
    assert tree_util.flatten_one_level([1, (2,)])[0] == [1, (2,)]
    with pytest.raises(ValueError, match="leaf"):
        tree_util.flatten_one_level(3)
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, [2]])


def test_a_registered_class_passes_through_transformations() -> None:
    @tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

        def tree_flatten(self):
            return (self.first, self.second), "pair"

        @classmethod
        def tree_unflatten(cls, metadata, children):
            assert metadata == "pair"
            return cls(*children)

    slope = fgrad.grad(lambda p: p.first * p.second)(Pair(2.0, 3.0))
    assert isinstance(slope, Pair) and float(slope.first) == 3
    path = tree_util.tree_flatten_with_path(Pair(1, 2))[0][1][0]
    assert tree_util.keystr(path) == "[<flat index 1>]"


def test_a_dataclass_keeps_static_fields_out_of_the_leaves() -> None:
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: object
        name: str = dataclasses.field(metadata={"static": True}, default="layer")

    layer = Layer(fnp.ones(2), "first")
    assert len(tree.leaves(layer)) == 1
    doubled = fgrad.jit(lambda m: Layer(m.w * 2, m.name))(layer)
    assert doubled.name == "first" and np.asarray(doubled.w).tolist() == [2, 2]
    assert tree_util.keystr(tree_util.tree_leaves_with_path(layer)[0][0]) == ".w"

    @dataclasses.dataclass
    class Other:
        a: int
        b: int

    with pytest.raises(errors.ArgumentError, match="its fields are"):
        tree_util.register_dataclass(Other, data_fields=["a"], meta_fields=[])


def test_keyed_classes_static_objects_and_partials() -> None:
    class Box:
        def __init__(self, value):
            self.value = value

    tree_util.register_pytree_with_keys(
        Box, lambda b: ([(tree_util.DictKey("in"), b.value)], None), lambda _, c: Box(c[0])
    )
    assert tree_util.keystr(tree_util.tree_leaves_with_path(Box([1]))[0][0]) == "['in'][0]"

    @tree_util.register_static
    class Mode(str):
        pass

    assert tree.leaves([Mode("fast"), 1]) == [1]
    part = tree_util.Partial(lambda a, x: a * x, fnp.asarray(3.0))
    assert float(fgrad.jit(lambda f, x: f(x))(part, 2.0)) == 6


def test_a_tree_becomes_a_vector_and_back() -> None:
    params = {"b": fnp.zeros(2), "w": fnp.ones((1, 2), "float64"), "n": fnp.asarray([3])}
    flat, back = flatten_util.ravel_pytree(params)
    assert np.asarray(flat).tolist() == [0, 0, 3, 1, 1] and flat.dtype == np.float64
    again = back(flat * 2)
    assert np.asarray(again["w"]).tolist() == [[2, 2]]
    assert [str(again[k].dtype) for k in "bnw"] == ["float32", "int64", "float64"]
    slope = fgrad.grad(lambda v: (back(v)["w"] ** 2).sum())(flat)
    assert np.asarray(slope).tolist() == [0, 0, 0, 2, 2]
    with pytest.raises(errors.ShapeError, match="has 5 elements"):
        back(flat[:3])


def test_a_leaf_test_may_take_the_path() -> None:
    x = ((1, 2), [3, {4: 4, 5: 5}])
    pairs, _ = tree_util.tree_flatten_with_path(x, lambda path, _: len(path) >= 2, is_leaf_takes_path=True)
    assert [tree_util.keystr(p) for p, _ in pairs] == ["[0][0]", "[0][1]", "[1][0]", "[1][1]"]
    assert pairs[-1][1] == {4: 4, 5: 5}


def test_one_level_with_keys_and_transposition_that_infers_the_inner_structure() -> None:
    children, _ = tree_util.flatten_one_level_with_keys({"b": 1, "a": [2]})
    assert children == [(tree_util.DictKey("a"), [2]), (tree_util.DictKey("b"), 1)]
    assert tree_util.is_tree_node([]) and not tree_util.is_tree_node(1)
    outer = tree_util.tree_structure([0, 0])
    assert tree_util.tree_transpose(outer, None, [{"a": 1}, {"a": 2}]) == {"a": [1, 2]}
    with pytest.raises(errors.ArgumentError, match="Mismatch"):
        tree_util.tree_transpose(outer, None, [{"a": 1}, {"b": 2}])


def test_a_named_tuple_may_get_functions_of_its_own() -> None:
    class Pair(NamedTuple):
        value: object
        name: str

    tree_util.register_pytree_node(Pair, lambda p: ((p.value,), p.name), lambda name, c: Pair(c[0], name))
    assert tree_util.tree_map(lambda x: x + 1, Pair(1, "n")) == Pair(2, "n")


def test_one_level_of_a_leaf_is_refused_by_its_type_and_keys_of_dictionaries_are_a_tuple() -> None:
    with pytest.raises(ValueError, match="can't tree-flatten type int"):
        tree_util.flatten_one_level_with_keys(1)
    pairs, keys = tree_util.flatten_one_level_with_keys({"b": 1, "a": [2]})
    assert keys == ("a", "b") and [v for _, v in pairs] == [[2], 1]
