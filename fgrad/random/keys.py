"""Keys: where random numbers come from.

A key is two 32-bit words. `key(seed)` gives it as a KeyArray, which knows that it is a key; `PRNGKey(seed)` gives the
bare words, uint32[2]. Every function of `fgrad.random` takes either. The same key always gives the same numbers: split
it.

Keys of the kinds "rbg" and "unsafe_rbg" have four words, for code that expects them. Their numbers come from threefry,
too: what other libraries draw from such keys depends on the machine.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import optree

from fgrad.config import config
from fgrad.errors import ArgumentError, ConcretizationError, DtypeError, ShapeError, describe, note_user_line
from fgrad.numpy.dtypes import prng_key
from fgrad.run.array import from_host
from fgrad.run.eager import public
from fgrad.trace import keys, tree
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, cast_node, lift
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.node import UOp, uop
from fgrad.uop.op import Op

IMPL = "threefry2x32"
TAGS = {IMPL: "fry", "rbg": "rbg", "unsafe_rbg": "urbg"}
WIDTHS = {IMPL: 2, "rbg": 4, "unsafe_rbg": 4}  # words of a key


class KeyDType:
    """The dtype of key arrays of one kind, e.g. `key<fry>`."""

    __slots__ = ("impl",)
    type = prng_key

    def __init__(self, impl: str = IMPL) -> None:
        self.impl = impl

    @property
    def name(self) -> str:
        """key<the kind>."""
        return f"key<{TAGS[self.impl]}>"

    @property
    def itemsize(self) -> int:
        """Bytes of a key."""
        return 4 * WIDTHS[self.impl]

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return other.impl == self.impl if isinstance(other, KeyDType) else other == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class KeyArray:
    """An array of keys: uint32 words [*shape, 2] (4 for some kinds) that cannot be mistaken for numbers.

    It is a pytree with the words as its one leaf, so it passes through every transformation.

    Indexing, reshaping and the like give keys again; `key_data` gives the words, arithmetic raises TypeError.

    >>> keys = split(key(0), 3)
    >>> keys.shape, keys[1].shape, key_data(keys).shape
    ((3,), (), (3, 2))
    """

    __slots__ = ("impl", "words")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, words: Any, impl: str = IMPL) -> None:
        self.words = words
        self.impl = impl

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of keys."""
        return tuple(self.words.shape[:-1])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of keys."""
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> KeyDType:
        """The key dtype."""
        return KeyDType(self.impl)

    @property
    def itemsize(self) -> int:
        """Bytes of a key."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all keys."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a single key")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, index: Any) -> KeyArray:
        if isinstance(index, int) and not isinstance(index, bool):
            if not -len(self) <= index < len(self):
                raise IndexError(f"index {index} is out of bounds for {len(self)} keys")
            return KeyArray(_row(self.words, index % len(self)), self.impl)
        return KeyArray(self.words[_of_whole_keys(index)], self.impl)

    def reshape(self, *shape: Any) -> KeyArray:
        """The same keys in another shape."""
        new = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        known = int(np.prod([n for n in new if n != -1]))
        new = tuple([self.size // known if n == -1 else int(n) for n in new])
        return KeyArray(_reshape(self.words, (*new, WIDTHS[self.impl])), self.impl)

    def word(self, i: int) -> Any:
        """Word number `i` of every key, uint32[*shape]."""
        return self.words[..., i]

    def of_words(self, words: Sequence[Any]) -> KeyArray:
        """Keys of this kind, made of their words, uint32[*shape] each."""
        return KeyArray(_side_by_side(*words), self.impl)

    @property
    def T(self) -> KeyArray:  # noqa: N802  as of arrays
        """The same keys with their axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> KeyArray:
        """The same keys with their axes in another order, reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple([a % self.ndim for a in order]) if order else tuple(reversed(range(self.ndim)))
        return KeyArray(self.words.transpose(*order, self.ndim), self.impl)

    def squeeze(self, axis: Any = None) -> KeyArray:
        """The same keys without axes of size 1: all of them, or those named."""
        named = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        gone = [a % self.ndim for a in named if axis is not None or self.shape[a] == 1]
        if any(self.shape[a] != 1 for a in gone):
            raise note_user_line(ShapeError(f"squeeze: axes {gone} of keys of shape {self.shape} are not of size 1"))
        return self.reshape(tuple([n for a, n in enumerate(self.shape) if a not in gone]))

    @property
    def at(self) -> KeyUpdates:
        """`keys.at[index].set(others)`: the keys with some of them replaced."""
        return KeyUpdates(self)

    def copy(self) -> KeyArray:
        """The same keys, in memory of their own."""
        return KeyArray(self.words.copy(), self.impl)

    def copy_to_host_async(self) -> None:
        """Does nothing, as of arrays."""

    def block_until_ready(self) -> KeyArray:
        """Wait for the words; returns the array itself."""
        self.words.block_until_ready()
        return self

    def ravel(self) -> KeyArray:
        """The same keys along one axis."""
        return self.reshape(-1)

    flatten = ravel

    def __repr__(self) -> str:
        if isinstance(self.words, Tracer):
            return f"KeyArray<{self.dtype}{list(self.shape)}>"
        return f"KeyArray({np.asarray(self.words).tolist()}, dtype={self.dtype})"


class KeyUpdates:
    """`keys.at`, and with an index what `set` and `get` are called on."""

    __slots__ = ("index", "keys")

    def __init__(self, keys_: KeyArray, index: Any = ...) -> None:
        self.keys = keys_
        self.index = index

    def __getitem__(self, index: Any) -> KeyUpdates:
        return KeyUpdates(self.keys, index)

    def set(self, values: KeyArray, **options: Any) -> KeyArray:
        """The keys with those at the index replaced by `values`; options as of arrays."""
        if not isinstance(values, KeyArray) or values.impl != self.keys.impl:
            raise note_user_line(DtypeError(f"keys.at[..].set needs {self.keys.dtype}, got {describe(values)}"))
        new = self.keys.words.at[_of_whole_keys(self.index)].set(values.words, **options)
        return KeyArray(new, self.keys.impl)

    def get(self, **options: Any) -> KeyArray:
        """The keys at the index; options as of arrays."""
        return KeyArray(self.keys.words.at[_of_whole_keys(self.index)].get(**options), self.keys.impl)


def _of_whole_keys(index: Any) -> Any:
    """An index into keys, as one into their words."""
    parts = index if isinstance(index, tuple) else (index,)
    return (*parts, slice(None)) if any(p is Ellipsis for p in parts) else index


_register: Any = optree.register_pytree_node
_register(KeyArray, lambda k: ((k.words,), k.impl), lambda impl, c: KeyArray(c[0], impl), namespace=tree.NAMESPACE)


@public()
def _row(words: ArrayLike, i: ArrayLike) -> Any:
    x = lift(words).node
    start = cast_node(i, dt.int64)
    row = build.shrink(x, [(None, 1, 1), *[(0, n, 1) for n in x.shape[1:]]], [start])
    return Tracer(build.reshape(row, x.shape[1:]))


@public()
def _side_by_side(*words: ArrayLike) -> Any:
    nodes = [lift(w).node for w in words]
    return Tracer(build.concatenate([build.reshape(x, (*x.shape, 1)) for x in nodes], nodes[0].ndim))


@public(static=("shape",))
def _reshape(words: ArrayLike, shape: tuple[int, ...]) -> Any:
    return Tracer(build.reshape(lift(words).node, shape))


def is_typed(key: Any) -> bool:
    """Whether `key` is a KeyArray."""
    return isinstance(key, KeyArray)


def words_node(key: Any, what: str) -> UOp:
    """The node uint32[*shape, 2 or 4] of a key or an array of keys."""
    x = lift(key.words if isinstance(key, KeyArray) else key)
    if x.node.dtype is not dt.uint32 or x.shape[-1:] not in ((2,), (4,)):
        raise note_user_line(
            DtypeError(f"{what} needs a key from fgrad.random.key(seed) or PRNGKey(seed) (uint32[2]), got {x.aval}")
        )
    return x.node


def pairs(key: Any, what: str, uses: bool = True) -> list[tuple[UOp, UOp]]:
    """The words of one key by twos, as scalars, for `what`, which uses the key up. Raises ShapeError for an array of
    keys.
    """
    words = words_node(key, what)
    if words.ndim != 1:
        raise note_user_line(
            ShapeError(
                f"{what} takes a single key, got keys of shape {words.shape[:-1]}; map over them with vmap, "
                "or pick one by its index"
            )
        )
    if uses and "keys" in config.check:
        words = keys.used(words, f"random.{what}")
    return [(element(words, i), element(words, i + 1)) for i in range(0, words.shape[0], 2)]


def single(key: Any, what: str) -> tuple[UOp, UOp]:
    """The two words that one key is to threefry, as scalars; a key of four encrypts its second half with its first.

    Raises ShapeError for an array of keys.
    """
    first, *more = pairs(key, what)
    return tuple(uop(Op.THREEFRY, (*first, *more[0]), i) for i in (0, 1)) if more else first  # type: ignore[return-value]


def element(words: UOp, i: int) -> UOp:
    """Word number `i`: uint32[*shape, 2] -> uint32[*shape]."""
    return build.reshape(build.slice_axis(words, words.ndim - 1, i, i + 1), words.shape[:-1])


def stack_words(hi: UOp, lo: UOp) -> UOp:
    """uint32[*s], uint32[*s] -> uint32[*s, 2]."""
    shape = (*hi.shape, 1)
    return build.concatenate([build.reshape(hi, shape), build.reshape(lo, shape)], len(shape) - 1)


def like_key(words: Any, key: Any) -> Any:
    """`words` (an Array) as the kind of key that `key` is."""
    return KeyArray(words, key.impl) if is_typed(key) else words


# ---- from seeds and words
def impl_of(impl: Any, words: int | None = None) -> str:
    """The kind of key that is meant: a name, a KeyDType, or None, which looks at the number of words."""
    if impl is None:
        return "rbg" if words == 4 else IMPL
    name = impl.impl if isinstance(impl, KeyDType) else impl
    for known, tag in TAGS.items():
        if name in (known, tag):
            return known
    raise NotImplementedError(f"keys of kind {impl!r} are not supported; use impl={IMPL!r}")


@public(static=("twice",))
def _seeded(seed: ArrayLike, twice: int) -> Array:
    x = lift(seed).node
    if not x.dtype.is_int:
        raise note_user_line(DtypeError(f"a seed is an integer, got {x.dtype}; use key(int(seed))"))
    if x.shape != ():
        raise note_user_line(ShapeError(f"a seed is a scalar, got shape {x.shape}; use vmap(key)(seeds) for many keys"))
    zero = build.const(0, dt.uint32)
    hi = zero
    if x.dtype.itemsize == 8:
        hi = build.cast(build.shr(build.cast(x, dt.uint64), 32), dt.uint32)
        if x.dtype is dt.int64 and not config.enable_x64:
            narrow = build.and_(build.lt(x, 0), build.le(-(1 << 31), x))
            hi = build.where(narrow, zero, hi)
    lo = build.cast(build.and_(build.cast(x, dt.uint64), 0xFFFFFFFF), dt.uint32)
    return Tracer(build.concatenate([stack_words(hi, lo)] * twice, 0))


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:  # noqa: N802  the name users know
    """A key as bare words, uint32[2], of an integer seed (64 bits of it count).

    impl   "rbg" or "unsafe_rbg" give uint32[4], the words twice

    Negative seeds of 32 bits give the keys of 32-bit seeds, whose first word is 0, unless `enable_x64` is set.

    >>> PRNGKey(7)
    Array([0, 7], dtype=uint32)
    """
    twice = WIDTHS[impl_of(impl)] // 2
    if isinstance(seed, bool | np.bool_ | float):
        raise note_user_line(DtypeError(f"a seed is an integer, got {seed!r} of type {type(seed).__name__}"))
    if isinstance(seed, int):
        if not -(1 << 63) <= seed < 1 << 64:
            raise OverflowError(f"the seed {seed} does not fit in 64 bits")
        bits = seed & (1 << 64) - 1
        narrow = -(1 << 31) <= seed < 0 and not config.enable_x64
        return from_host(np.array([0 if narrow else bits >> 32, bits & 0xFFFFFFFF] * twice, np.uint32))
    return _seeded(seed, twice)


def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """A key made of an integer seed.

    impl, dtype   the kind of key, as a name or a `key_dtype`; one of the two

    >>> key(7)
    KeyArray([0, 7], dtype=key<fry>)
    """
    if impl is not None and dtype is not None:
        raise note_user_line(ValueError(f"key: give the kind by impl= or by dtype=, not both ({impl!r}, {dtype!r})"))
    kind = impl_of(dtype if impl is None else impl)
    return KeyArray(PRNGKey(seed, impl=kind), kind)


def key_data(keys: Any) -> Any:
    """The words of keys: KeyArray [*shape] -> uint32[*shape, 2 (or 4)]. Bare words pass through.

    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    return keys.words if isinstance(keys, KeyArray) else keys


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None) -> KeyArray:
    """Keys made of words: uint32[*shape, 2] -> KeyArray [*shape]; with impl="rbg" or "unsafe_rbg" uint32[*shape, 4].

    >>> random.key_data(random.wrap_key_data(fnp.array([0, 7], "uint32")))
    Array([0, 7], dtype=uint32)
    """
    kind = impl_of(impl)
    words = key_bits_array
    if not isinstance(words, Array):
        words = from_host(np.asarray(words))
    if words.dtype != np.uint32 or words.shape[-1:] != (WIDTHS[kind],):
        raise note_user_line(
            DtypeError(f"wrap_key_data needs uint32[..., {WIDTHS[kind]}], got {words.dtype}{list(words.shape)}")
        )
    return KeyArray(words, kind)


def key_dtype(impl: Any = None) -> KeyDType:
    """The dtype of arrays of keys.

    >>> random.key_dtype()
    key<fry>
    """
    return KeyDType(impl_of(impl))


def key_impl(keys: Any) -> str:
    """The name of the generator that `keys` belong to.

    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    return keys.impl if isinstance(keys, KeyArray) else impl_of(None, np.shape(keys)[-1])


@public()
def _renewed(words: ArrayLike) -> Array:
    return Tracer(keys.renewed(lift(words).node))


def clone(key: Any) -> Any:
    """The same key once more; it gives the same numbers, and under FGRAD_CHECK=keys may be used like a new one.

    >>> random.bits(random.clone(random.key(0))) == random.bits(random.key(0))
    Array(True, dtype=bool)
    """
    if "keys" not in config.check:
        return key
    return like_key(_renewed(key_data(key)), key)


# ---- new keys of old ones
def normal_shape(shape: Any, what: str) -> tuple[int, ...]:
    """A shape argument as a tuple of ints."""
    sizes = (shape,) if isinstance(shape, int | np.integer) or not np.iterable(shape) else shape
    try:
        out = tuple([operator.index(n) for n in sizes])
    except ConcretizationError:
        raise
    except TypeError:
        raise note_user_line(ArgumentError(f"{what} needs a shape made of ints, got {describe(shape)}")) from None
    if any(n < 0 for n in out):
        raise note_user_line(ShapeError(f"{what} got the negative size in shape {out}"))
    return out


__all__ = [
    "KeyArray", "KeyDType", "PRNGKey", "clone", "element", "impl_of", "is_typed", "key", "key_data", "key_dtype",
    "key_impl", "like_key", "normal_shape", "pairs", "single", "stack_words", "words_node", "wrap_key_data",
]  # fmt: skip
