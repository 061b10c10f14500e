"""Dispatcher: from the arguments of a call to the executable of their signature, and one native call.

This is the general path: pytrees flattened by optree, a dictionary over (structure, avals, static values). `wrapper.py`
generates the short path for signatures that were seen.

A Ref among the arguments, or closed over, is one parameter for each identity: its contents at the call go in, and
what the program leaves there comes out and becomes the Ref's new version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import numpy as np

from fgrad.config import config
from fgrad.errors import ArgumentError, DonatedError, LeakedTracerError, describe
from fgrad.hw.device import get_device
from fgrad.run.array import DeviceArray, Gone, Sig, donate, from_host, sig_of
from fgrad.run.compile import compiled
from fgrad.run.keys import a_call, concerns_keys, hand_on, use_keys
from fgrad.run.shortcut import FALL_THROUGH, leaves_function
from fgrad.trace import tree
from fgrad.trace.ref import Ref
from fgrad.trace.stage import Stage, check_leaks, lift_buffers, origins
from fgrad.trace.staging import argument_names, trace
from fgrad.trace.tracer import PROTOCOLS, Tracer, is_scalar, unwrapped
from fgrad.uop import dtype as dt
from fgrad.uop.aval import Aval
from fgrad.uop.node import paused_gc
from fgrad.uop.program import Program

if TYPE_CHECKING:
    from fgrad.run.sizes import Sizes
TALKATIVE_AFTER = 3  # compilations of one function, after which the reason is logged


def scalar_aval(x: Any) -> Aval:
    """The aval of a Python or NumPy scalar."""
    if isinstance(x, np.generic):
        return Aval(dt.to_dtype(x.dtype), ())
    if isinstance(x, bool):
        return Aval(dt.bool_, ())
    if isinstance(x, int):
        return Aval(dt.int64, (), True)
    return Aval(dt.default_float() if isinstance(x, float) else dt.default_complex(), (), True)


def scalar_word(x: Any, dtype: dt.DType) -> int:
    """The bits of a scalar as a table word."""
    if dtype is dt.int64 and not -(1 << 63) <= x < 1 << 63:
        raise OverflowError(f"the integer {x} does not fit in int64; pass it as numpy.uint64")
    return int.from_bytes(np.asarray(x).astype(dtype.np).tobytes(), "little")


def _in_16_bytes(x: complex, leaves: Sequence[Any]) -> Any:
    """A complex scalar that 8 bytes cannot hold, as an array where the arrays among `leaves` are; others as they are.

    That of a Python number is weak, which no other complex128 array is where complex64 is the default.
    """
    weak = not isinstance(x, np.complex128)
    with np.errstate(over="ignore", invalid="ignore"):
        if weak and (complex(np.complex64(x)) == x or x != x):
            return x
    device = next((y.sig.device for y in leaves if isinstance(y, DeviceArray)), None)
    return from_host(np.asarray(x), dt.complex128, weak, device)


def _is_wide(x: Any) -> bool:
    """Whether leaf `x` is a Python number that is passed with more digits than its dtype has by default."""
    return type(x) is float or (isinstance(x, DeviceArray) and x.aval == Aval(dt.complex128, (), True))


class Traced:
    """A traced function: its closed program over (*leaves, *entries of Refs, *captured arrays), and where each comes
    from.
    """

    __slots__ = ("program", "captured", "out_tree", "out_avals", "refs", "finals")

    def __init__(
        self,
        program: Program,
        captured: list[DeviceArray],
        out_tree: tree.TreeDef,
        out_avals: list[Aval],
        refs: list[int | Ref],
        finals: list[int],
    ) -> None:
        self.program = program
        self.captured = captured
        self.out_tree = out_tree
        self.out_avals = out_avals
        self.refs = refs  # a Ref it closes over, or the number of the leaf that is one
        self.finals = finals  # which of `refs` the outputs after the function's own are for


@dataclass(slots=True)
class Entry:
    """One compiled signature of one function."""

    traced: Traced
    executable: Any
    out_sigs: list[Sig]
    final_sigs: list[Sig]
    avals: list[Aval]
    donated: frozenset[int]
    statics: Any
    leaf_sigs: list[Sig | None]
    given: frozenset[int]  # parameters of the program whose memory it may take
    word_dtypes: list[dt.DType]  # of the leaves that are no Refs: what an inline scalar's word holds
    sizes: tuple[int, ...] = ()  # words after those of captured arrays: what differs between lengths of axes
    short: Callable[[Sequence[Any]], Any] | None = None  # generated code of the usual case
    roomy: tuple[tuple[int, int], ...] = ()  # parameters that are passed in blocks of so many bytes
    concerns_keys: bool = False  # its runs are looked at, under FGRAD_CHECK=keys

    @property
    def captured(self) -> list[DeviceArray]:
        return self.traced.captured

    @property
    def out_tree(self) -> tree.TreeDef:
        return self.traced.out_tree

    @property
    def has_refs(self) -> bool:
        return bool(self.traced.refs)

    @property
    def is_simple(self) -> bool:
        """Whether a run is no more than one native call, which generated code can make."""
        return bool(self.executable.short) and not self.concerns_keys


def kind_of(leaf: Any, leaves: Sequence[Any]) -> Any:
    """What of a leaf is part of the key."""
    if isinstance(leaf, DeviceArray):
        return leaf.sig.key
    if isinstance(leaf, Ref):
        return ("ref", leaf.aval, next(i for i, x in enumerate(leaves) if x is leaf))
    return scalar_aval(leaf)


def aval_of_leaf(leaf: Any) -> Aval:
    """The aval of a concrete leaf."""
    if isinstance(leaf, DeviceArray):
        aval: Aval = leaf.sig.aval
        return aval
    return leaf.aval if hasattr(leaf, "aval") else scalar_aval(leaf)


class Dispatcher:
    """The compiled signatures of one function of dynamic leaves.

    make     given static values, the Python function to trace; called on a miss only
    name     for error messages and kernels
    talks    whether it logs why it compiles again
    sizes    the axes that may have any length in a range
    """

    alive: ClassVar[WeakSet[Dispatcher]] = WeakSet()

    def __init__(
        self,
        make: Callable[[Any], Callable[..., Any]],
        name: str,
        limit: int = 4096,
        talks: bool = True,
        sizes: Sizes | None = None,
    ) -> None:
        self.sizes = sizes
        self.talks = talks
        self.make = make
        self.name = name
        self.limit = limit
        self.entries: dict[Any, Entry] = {}
        self.compilations = 0
        self.on_forget: list[Callable[[], None]] = []
        Dispatcher.alive.add(self)

    def forget(self) -> None:
        """Drop all compiled signatures, and the generated code that knows them."""
        self.entries.clear()
        if self.sizes is not None:
            self.sizes.known.clear()
        self.forget_shortcuts()

    def count(self) -> int:
        """How many programs were compiled. With dynamic sizes, one serves many signatures."""
        if self.sizes is None:
            return len(self.entries)
        return len({id(e.executable) for e in self.entries.values()})

    def forget_shortcuts(self) -> None:
        """Drop the generated code that knows compiled signatures; they are learnt again."""
        for drop in self.on_forget:
            drop()

    def concrete_leaves(self, leaves: list[Any], in_tree: tree.TreeDef) -> list[Any]:
        """Leaves as DeviceArrays, Refs, Python numbers and NumPy scalars; host arrays are copied now."""
        out = []
        for i, x in enumerate(leaves):
            if type(x) is DeviceArray or isinstance(x, Ref):
                out.append(x)
            elif is_scalar(x):
                out.append(_in_16_bytes(x, leaves) if isinstance(x, complex) else x)
            elif isinstance(x, Tracer):
                raise LeakedTracerError(
                    f"Encountered an unexpected tracer: {self.name}: {tree.path_of_argument(in_tree, i)} is a tracer "
                    f"({x.aval}) made from "
                    f"{origins([x.as_node()])}, whose trace has ended; return the value from the traced function "
                    "instead of storing it outside"
                )
            elif isinstance(x, DeviceArray):
                out.append(x)
            elif isinstance(x, np.ndarray):
                out.append(from_host(x))
            elif any(hasattr(x, p) for p in PROTOCOLS) and not isinstance(x, type):
                out += self.concrete_leaves([unwrapped(x)], in_tree)
            elif hasattr(x, "__array__") and not isinstance(x, type):
                out.append(from_host(np.asarray(x)))
            else:
                raise ArgumentError(
                    f"{self.name} takes arrays and numbers (in any pytree), but {tree.path_of_argument(in_tree, i)} is "
                    f"{describe(x)}; {self._way_out(x)}"
                )
        return out

    def _way_out(self, x: Any) -> str:
        """What a user can do about an argument that is no array."""
        if not self.talks:  # a function of fgrad's own
            return "convert lists and other data with fgrad.numpy.array"
        if callable(x) or isinstance(x, str) or type(x).__module__ == "builtins":
            return "mark it static (static_argnames) if it is a Python value that the function branches on"
        kind = type(x).__name__
        return (
            f"register {kind} with fgrad.tree_util (register_dataclass, register_pytree_node_class) if it holds "
            "arrays, or mark the argument static"
        )

    def entry(self, leaves: Sequence[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int]) -> Entry:
        """The entry for these concrete leaves, compiled now if it is new."""
        if donated:  # a Ref gives its memory anyway
            donated = frozenset([i for i in donated if not isinstance(leaves[i], Ref)])
        kinds = tuple([x.sig.key if type(x) is DeviceArray else kind_of(x, leaves) for x in leaves])
        key = (in_tree, kinds, statics, donated, config.state)
        entry = self.entries.get(key)
        if entry is None:
            if self.sizes is None:
                self._explain(key)
            entry = self.compile(leaves, in_tree, statics, donated)
            while len(self.entries) >= self.limit:
                self.entries.pop(next(iter(self.entries)), None)
            self.entries[key] = entry
        return entry

    def _explain(self, key: tuple[Any, ...]) -> None:
        """Say why a function is compiled again, where that was asked for or has happened often."""
        often = self.talks and self.compilations == TALKATIVE_AFTER
        if not self.entries or not ("recompiles" in config.show or often):
            return
        kinds, settings = key[1], key[-1]
        last = next(reversed(self.entries))[1]
        changes = [
            f"argument {i}: {a} was {b}"
            for i, (a, b) in enumerate(zip(kinds, last, strict=False))
            if a is not b and a != b
        ]
        if settings not in [known[-1] for known in self.entries]:
            changes = ["under other settings"]
        reason = "; ".join(changes) or "another structure or other static values"
        self._say(self.compilations + 1, reason)

    def _say(self, number: int, reason: str) -> None:
        import logging  # late: it costs 5 % of the import

        logging.getLogger("fgrad").warning("%s is compiled for the %d. time: %s", self.name, number, reason)

    def trace(self, leaves: Sequence[Any], in_tree: tree.TreeDef, statics: Any, avals: Sequence[Aval]) -> Traced:
        """Trace the function; `leaves` matter only where they are Refs."""
        proxies: dict[int, Ref] = {}
        number: dict[Ref, int] = {}
        for i, x in enumerate(leaves):
            if isinstance(x, Ref):
                first = next(j for j, y in enumerate(leaves) if y is x)
                proxies[i] = proxies[first] if first < i else Ref(x.aval, x.get())
                number.setdefault(proxies[i], i)
        fun = self.make(statics)

        def run(*given: Any) -> Any:
            it = iter(given)
            args, kwargs = tree.unflatten(
                in_tree, [proxies[i] if i in proxies else next(it) for i in range(len(leaves))]
            )
            return fun(*args, **kwargs)

        run.__name__ = self.name
        inner = [a for i, a in enumerate(avals) if i not in proxies]
        names = [n for i, n in enumerate(argument_names(fun, in_tree)) if i not in proxies]
        with paused_gc():
            flat = tree.flat_arguments(len(inner))
            plain = [x for i, x in enumerate(leaves) if i not in proxies]
            wide = frozenset([i for i, x in enumerate(plain) if _is_wide(x)])
            traced = trace(run, flat, inner, Stage(f"jit({self.name})"), names, wide=wide)
            outs = [*traced.outs, *[f for _, f in traced.finals]]
            buffers, program = lift_buffers((*traced.params, *traced.entries), outs)
            check_leaks(program.outs, self.name)
        for ref in proxies.values():
            ref._array = None  # what the function has kept of its argument is no Ref any more
        refs = [number.get(r, r) for r in traced.refs]
        captured = [b.arg.owner for b in buffers]
        return Traced(program, captured, traced.out_tree, traced.out_avals, refs, [i for i, _ in traced.finals])

    def compile(self, leaves: Sequence[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int]) -> Entry:
        """Trace and compile for these leaves."""
        device = next((x.sig.device for x in leaves if isinstance(x, DeviceArray)), None) or get_device()
        for i, x in enumerate(leaves):
            if isinstance(x, DeviceArray) and x.sig.device is not device:
                raise ValueError(
                    f"{self.name} got arrays on {device.name} and on {x.sig.device.name} "
                    f"({tree.path_of_argument(in_tree, i)}); move one with device_put"
                )
        avals = [aval_of_leaf(x) for x in leaves]
        if self.sizes is not None:
            self.sizes.find(in_tree, avals)  # what is wrong with the lengths is said before the function sees them
        traced = self.trace(leaves, in_tree, statics, avals)
        plain = [x for x in leaves if not isinstance(x, Ref)]
        positions = [i for i, x in enumerate(leaves) if not isinstance(x, Ref)]
        inline = frozenset([i for i, x in enumerate(plain) if not isinstance(x, DeviceArray)])
        given = frozenset([j for j, i in enumerate(positions) if i in donated])
        given |= {len(plain) + i for i in traced.finals}  # the old version of a Ref that is written is nobody's
        program, words = self.program_for(traced.program, leaves, in_tree, statics, avals)
        first = len(traced.program.params)
        inline |= frozenset(range(first, first + len(words)))
        own = frozenset([i for i in given if program.params[i] is traced.program.params[i]])
        executable = compiled(program, device.name, inline, own, self.name)
        is_new = self.sizes is None or all(e.executable is not executable for e in self.entries.values())
        self.compilations += is_new
        n = len(traced.out_avals)
        sigs = [sig_of(a, device) for a in traced.out_avals]
        if self.sizes is not None:
            sigs = [self.sizes.with_room(s, out) for s, out in zip(sigs, program.outs[:n], strict=True)]
            often = self.compilations == TALKATIVE_AFTER + 1
            if is_new and self.entries and ("recompiles" in config.show or often):
                self._say(self.compilations, self.sizes.reason)
        finals = [sig_of(Aval(o.dtype, o.shape), device) for o in traced.program.outs[n:]]
        # of a donated leaf the plain one: short ways must not take over memory that others hold views of
        leaf_sigs = [
            None if not isinstance(x, DeviceArray) else x.sig.key if i in donated else x.sig
            for i, x in enumerate(leaves)
        ]
        dtypes = [p.dtype for p in traced.program.params[: len(plain)]]
        entry = Entry(traced, executable, sigs, finals, avals, donated, statics, leaf_sigs, given, dtypes, words)
        if self.sizes is not None and device.wants_whole_arguments:
            loose = [i for i in range(first) if program.params[i].size != traced.program.params[i].size]
            entry.roomy = tuple([(i, program.params[i].size * program.params[i].dtype.itemsize) for i in loose])
        entry.concerns_keys = concerns_keys(traced.program)
        entry.short = leaves_function(entry)
        return entry

    def program_for(
        self, program: Program, leaves: Sequence[Any], in_tree: tree.TreeDef, statics: Any, avals: Sequence[Aval]
    ) -> tuple[Program, tuple[int, ...]]:
        """-> (the program to compile for one that was traced, words of its parameters after those of `program`).

        With dynamic sizes it is one for many.
        """
        if self.sizes is None:
            return program, ()

        def trace_at(other: Sequence[Aval]) -> Program:
            return self.trace(leaves, in_tree, statics, other).program

        return self.sizes.program_for(program, in_tree, statics, avals, trace_at)

    def call(
        self, leaves: list[Any], in_tree: tree.TreeDef, statics: Any, donated: frozenset[int] = frozenset()
    ) -> Any:
        """Run the function on `leaves`."""
        leaves = self.concrete_leaves(leaves, in_tree)
        return self.run(self.entry(leaves, in_tree, statics, donated), leaves)

    def _owned(self, x: DeviceArray, i: int, leaves: Sequence[Any]) -> DeviceArray:
        """The array to donate for leaf `i`: itself, or a copy where its memory must not change."""
        if any(y is x for j, y in enumerate(leaves) if j != i):
            raise ValueError(f"{self.name} got one array twice, once as a donated argument; pass a copy")
        return x.__copy__() if x.sig.is_exported else x

    def run(self, entry: Entry, leaves: Sequence[Any]) -> Any:
        """One native call on concrete leaves."""
        if entry.short is not None:
            try:
                return entry.short(leaves)
            except FALL_THROUGH:
                pass
        traced = entry.traced
        words: list[int] = []
        sources: list[Any] = []  # the array behind each word, None for a number
        for i, x in enumerate(leaves):
            if isinstance(x, DeviceArray):
                if i in entry.donated:
                    x = self._owned(x, i, leaves)
                words.append(x.addr)
                sources.append(x)
            elif not isinstance(x, Ref):
                words.append(scalar_word(x, entry.word_dtypes[len(words)]))
                sources.append(None)
        first_ref = len(sources)
        cells = self._use_keys(entry, leaves) if entry.concerns_keys else ()
        refs = [leaves[r] if isinstance(r, int) else r for r in traced.refs]
        if len(set(refs)) < len(refs):
            raise ArgumentError(f"{self.name} is given a Ref that it also closes over; use it in one of the two ways")
        for i, ref in enumerate(refs):
            sources.append(ref.take() if i in traced.finals else ref.get())
            words.append(sources[-1].addr)
        for a in traced.captured:
            if a.is_deleted():
                raise DonatedError(f"{self.name} uses an array that was donated to {a.sig.by}")
            words.append(a.addr)
        words.extend(entry.sizes)
        if entry.roomy and self.sizes is not None:
            _held = self.sizes.put_into_room([*sources, *traced.captured], words, entry.roomy)
        aliases: dict[int, int] = entry.executable.aliases
        taken = set(aliases.values())
        outs = [
            DeviceArray(s, sources[aliases[i]].addr if i in aliases else s.take())
            for i, s in enumerate([*entry.out_sigs, *entry.final_sigs])
        ]
        words.extend([o.addr for o in outs])
        given = {number: x for number, x in enumerate(sources) if number in entry.given}
        versions = [(x, x.sig, x.addr) for x in [sources[first_ref + i] for i in traced.finals]]
        returns = [(x.sig.put, x.addr) for number, x in given.items() if number not in taken]
        for x in given.values():
            donate(x, self.name)
        for i in entry.donated:
            if not leaves[i].is_deleted():  # a view of it is held elsewhere: a copy was donated, the memory stays
                leaves[i].sig = Gone(self.name, leaves[i].sig.put)
        try:
            entry.executable.call(words)
        except BaseException:
            # a Ref outlives a call that fails: it keeps its version, or where that was overwritten, what is there now
            for i, (old, sig, address) in zip(traced.finals, versions, strict=True):
                if first_ref + i in taken:
                    refs[i].hold(next(outs[k] for k, number in aliases.items() if number == first_ref + i))
                else:
                    old.sig, old.addr = sig, address
            raise
        for put, address in returns:  # only now: until the call is queued, nobody else may get these buffers
            put(address)
        n = len(entry.out_sigs)
        for i, out in zip(traced.finals, outs[n:], strict=True):
            refs[i].hold(out)
        hand_on(cells, outs)
        return tree.unflatten(traced.out_tree, outs[:n])

    def _use_keys(self, entry: Entry, leaves: Sequence[Any]) -> list[Any]:
        """Note the random keys that a call uses."""
        traced = entry.traced
        refs = [leaves[r] if isinstance(r, int) else r for r in traced.refs]
        given = [*[x for x in leaves if not isinstance(x, Ref)], *[r.get() for r in refs], *traced.captured]
        return use_keys(traced.program, given, a_call(is_library=not self.talks))


def _settings_changed() -> None:
    """Generated code asks for no setting: it is dropped. Signatures are kept under their settings."""
    for dispatcher in list(Dispatcher.alive):
        dispatcher.forget_shortcuts()


config.on_change.append(_settings_changed)
