"""Try every array function with every kind of number and under every transformation: ``python docs/support.py``.

What was found is kept in docs/support-tables, one file of comma-separated values for each module, which the page
``support`` shows. The tests only compare the names; run this after a function was added or has learned more.
Without arguments it tries what the files do not have yet; ``--all`` tries everything again.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TABLES = HERE / "support-tables"
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("FGRAD_CACHE_DIR", "")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import fgrad  # noqa: E402
import fgrad.numpy as fnp  # noqa: E402
from fgrad import lax, nn  # noqa: E402

MODULES = ("numpy", "numpy.linalg", "numpy.fft", "lax", "nn", "scipy.special")
KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (np.bool_,),
    "int": (np.int32, np.int64),
    "uint": (np.uint8, np.uint32),
    "half": (np.float16, ml_dtypes.bfloat16),
    "float": (np.float32, np.float64),
    "complex": (np.complex64, np.complex128),
}
TRANSFORMS = ("jvp", "vjp", "vmap", "jit")
HEADER = ("function", *KINDS, *TRANSFORMS, "tried as")

# Names whose functions take no array: descriptions of dtypes and shapes, creation, files, printing.
NO_ARRAY = {
    "numpy": """arange bartlett blackman broadcast_shapes can_cast diag_indices einsum_path empty eye finfo from_dlpack
        frombuffer fromfile fromfunction fromiter fromstring full geomspace get_printoptions hamming hanning identity
        iinfo indices isdtype isscalar issubdtype kaiser linspace load logspace mask_indices ones printoptions
        promote_types result_type set_printoptions tri tril_indices triu_indices zeros save savez
        array_repr array_str dtype frompyfunc""",
    "numpy.fft": "fftfreq rfftfreq",
    "lax": """DotDimensionNumbers axis_index axis_size broadcast_shapes broadcasted_iota conv_dimension_numbers
        conv_general_permutations conv_general_shape_tuple conv_shape_tuple
        conv_transpose_shape_tuple dtype empty full iota padtype_to_pads
        reduce_window_shape_tuple platform_dependent rng_bit_generator""",
    "scipy.special": "bernoulli",
}

# How a function is tried, where its parameters' names do not tell. x, y, z: [3, 3], between 0 and 1; u, v: [4];
# m: [3, 3], symmetric and positive definite; images: [1, 4, 4, 2]. Everything else is no argument.
EXAMPLES = {
    "numpy": """
        arccosh(x + 1) acosh(x + 1) packbits(x) unpackbits(x) gradient(v) trapezoid(v) clip(x, y * 0, y)
        cumulative_sum(v) cumulative_prod(v) diag(v) diagflat(v)
        einsum('ij,jk->ik', x, y) apply_along_axis(fnp.cumsum, 0, x) apply_over_axes(fnp.sum, x, (0,))
        vectorize(fnp.sin)(x) astype(x, x.dtype) array(x) asarray(x) copy(x) empty_like(x) ones_like(x) zeros_like(x)
        full_like(x, 1) convolve(u, v) correlate(u, v) choose(np.array([0, 1, 0]), [x, y])
        compress([True, False, True], x)
        extract([True, False, True, True], v) diag_indices_from(x) fill_diagonal(x, v[0], inplace=False) ix_(u, v)
        place(v, [True, False, True, False], u[:2], inplace=False) put(v, [0, 2], u[:2], inplace=False)
        put_along_axis(x, [[0], [1], [2]], y[:, :1], 1, inplace=False) ravel_multi_index((x, y), (4, 4))
        take(x, [0, 2]) take_along_axis(x, [[0], [1], [2]], 1) tril_indices_from(x) triu_indices_from(x)
        unravel_index(x, (4, 4)) histogram(v, [0., .3, .6, 1.]) histogram_bin_edges(v, 3)
        histogram2d(u, v, [[0., .5, 1.], [0., .5, 1.]]) histogramdd(x, [[0., .5, 1.]] * 3)
        append(x, y) array_split(v, 3) block([[x, y], [y, x]]) column_stack([x, y]) concat([x, y]) concatenate([x, y])
        dsplit(x[None, :, :2], 2) dstack([x, y]) hsplit(v, 2) hstack([x, y]) split(v, 2) stack([x, y]) unstack(x)
        vsplit(x, 3) vstack([x, y]) pad(x, 1) interp(u, fnp.arange(4.0), v) poly(v) polyadd(u, v) polyder(v)
        polydiv(v, u[:2]) polyfit(fnp.arange(4.0), v, 1) polyint(v) polymul(u, v) polysub(u, v) polyval(u, x) roots(v)
        ldexp(x, 2) frexp(x) cross(x, y) kron(x, y) matvec(x, y[0]) vecmat(y[0], x) vander(v) meshgrid(u, v)
        delete(v, 1) insert(v, 1, u[0]) repeat(x, 2) resize(x, (4, 2)) roll(x, 1) tile(x, 2) trim_zeros(v)
        bincount(x.ravel(), length=4) digitize(v, [0.2, 0.4, 0.8]) piecewise(v, [v < 0.5, v >= 0.5], [0, 1])
        searchsorted(fnp.arange(4), v) select([x < y, x >= y], [x, y]) where(x < y, x, y) broadcast_arrays(x, y[0])
        nonzero(x) broadcast_to(v, (2, 4)) expand_dims(x, 0) moveaxis(x, 0, 1) permute_dims(x, (1, 0))
        reshape(x, (9,)) rollaxis(x, 1) swapaxes(x, 0, 1) argpartition(v, 1) partition(v, 1) lexsort((u, v))
        nanpercentile(x, 30) nanquantile(x, 0.3) percentile(x, 30) quantile(x, 0.3) average(x, weights=y)
        atleast_1d(x) atleast_2d(x) atleast_3d(x) round(x) iterable(x)
        """,
    "numpy.linalg": """
        matrix_power(x, 3) multi_dot([x, y, x]) cholesky(m) eig(m) eigh(m) eigvals(m) eigvalsh(m) inv(m) det(m)
        slogdet(m) solve(m, y) lstsq(m, y) pinv(m) cond(m) qr(m) svd(m) svdvals(m) matrix_rank(m)
        cross(x, y) outer(u, v)
        tensorinv(m, 1) tensorsolve(m, y[0]) vector_norm(x) matrix_norm(m)
        """,
    "numpy.fft": "",
    "lax": """
        acosh(x + 1) all_gather(x[0], 'i') all_to_all(x, 'i', 0, 0) approx_max_k(v, 2) approx_min_k(v, 2)
        argmax(x, 0) argmin(x, 0) associative_scan(lax.add, x) batch_matmul(x[None], y[None]) betainc(1.5, 0.5, x)
        bitcast_convert_type(x, x.dtype) broadcast(x, (2,)) broadcast_in_dim(v, (2, 4), (1,)) broadcast_to_rank(x, 3)
        broadcast_like(x[0], y)
        clamp(x * 0, x, y) collapse(x, 0, 2) concatenate([x, y], 0) cond(True, lax.neg, lax.square, x)
        conv(images, fnp.ones((2, 4, 2, 2), images.dtype), (1, 1), 'SAME')
        conv_general_dilated(images, fnp.ones((2, 4, 2, 2), images.dtype), (1, 1), 'SAME')
        conv_general_dilated_patches(images, (2, 2), (1, 1), 'SAME')
        conv_transpose(images, fnp.ones((2, 2, 2, 2), images.dtype), (1, 1), 'SAME')
        conv_with_general_padding(images, fnp.ones((2, 4, 2, 2), images.dtype), (1, 1), 'SAME', None, None)
        convert_element_type(x, x.dtype) custom_linear_solve(lambda r: 2 * r, v, lambda f, b: b / 2, symmetric=True)
        custom_root(lambda r: r * 1 - v, v, lambda f, r: r - f(r), lambda g, r: r / g(fnp.ones_like(r)))
        dot_general(x, y, (([1], [0]), ([], []))) dynamic_index_in_dim(x, 1) dynamic_slice(x, (0, 1), (2, 2))
        dynamic_slice_in_dim(x, 1, 2) dynamic_update_index_in_dim(x, y[0], 1, 0)
        dynamic_update_slice(x, y[:2, :2], (0, 1)) dynamic_update_slice_in_dim(x, y[:2], 1, 0) expand_dims(x, (0,))
        fft(x, 'fft', (3,)) fori_loop(0, 3, lambda i, r: r + r, x) full_like(x, 1)
        gather(v, np.array([[0], [2]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,))
        index_in_dim(x, 1) index_take(v, (np.array([0, 2]),), (0,)) integer_pow(x, 3) map(lax.neg, x)
        pad(x, x[0, 0], [(1, 1, 0)] * 2)
        pmax(x[0], 'i') pmean(x[0], 'i') pmin(x[0], 'i') psum(x[0], 'i') polygamma(1, x)
        ppermute(x[0], 'i', [(0, 1), (1, 2), (2, 0)]) pshuffle(x[0], 'i', [1, 2, 0]) psum_scatter(x[0], 'i')
        pswapaxes(x, 'i', 0) ragged_dot(x, y[None], np.array([3]))
        ragged_dot_general(x, y, np.array([1, 2]), lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), (1,), ()))
        conv_general_dilated_local(x[None, :1], y[:2, :2][None], (1,), 'VALID', (2,))
        reduce(x, fnp.zeros((), x.dtype), lax.add, (0,)) reduce_and(x, (0,)) reduce_max(x, (0,)) reduce_min(x, (0,))
        reduce_or(x, (0,)) reduce_xor(x, (0,)) reduce_prod(x, (0,)) reduce_sum(x, (0,))
        reduce_precision(x, 11, 52) reduce_window(x, fnp.zeros((), x.dtype), lax.add, (2, 2))
        reshape(x, (9,)) rev(x, (0,))
        scan(lambda c, r: (c + r, c * r), x[0], y) select(x < y, x, y) select_n(x < y, x, y) slice(x, (0, 1), (2, 3))
        scatter(v, np.array([[0], [2]]), u[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
        scatter_add(v, np.array([[0], [2]]), u[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
        scatter_sub(v, np.array([[0], [2]]), u[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
        scatter_mul(v, np.array([[0], [2]]), u[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
        scatter_max(v, np.array([[0], [2]]), u[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
        scatter_min(v, np.array([[0], [2]]), u[:2], lax.ScatterDimensionNumbers((), (0,), (0,)))
        scatter_apply(v, np.array([[0], [2]]), lax.neg, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(2,))
        slice_in_dim(x, 0, 2) sort_key_val(u, v) split(v, (1, 3)) squeeze(x[None], (0,)) stack([x, y])
        switch(1, [lax.neg, lax.square], x) tile(x, (2, 1)) top_k(v, 2) transpose(x, (1, 0)) unstack(x)
        while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + c[1]), (0, x))[1] zeta(x + 1, y)
        igamma(x, y) igammac(x, y) igamma_grad_a(x, y) random_gamma_grad(x, y) complex(x, y) rem(x, y)
        """,
    "nn": """
        avg_pool(images, (2, 2)) max_pool(images, (2, 2)) min_pool(images, (2, 2)) glu(v) one_hot(x, 3)
        dot_product_attention(images, images * 2, images)
        """,
    "scipy.special": """
        betainc(1.5, 0.5, x) boxcox(x, y) boxcox1p(x, y) comb(x, y) multigammaln(x + 2, 2) poch(x, y) polygamma(1, x)
        gammainc(x, y) gammaincc(x, y) zeta(x + 1, y) factorial(x) bessel_jn(x, v=2) expn(2, x) hyp1f1(x, y + 1, z)
        hyp2f1(x, y, z + 1, x * 0.5) owens_t(x, y) sph_harm_y(2, 1, x, y)
        """,
}
# Their results count as constants: by definition, or since they are found on the host from the values.
CONSTANT = {
    *("lax.nextafter", "lax.stop_gradient", "numpy.nextafter", "numpy.roots"),
    *("numpy.spacing", "numpy.trim_zeros", "numpy.unique", "numpy.unique_all", "numpy.unique_counts"),
    *("numpy.unique_inverse", "numpy.unique_values", "numpy.intersect1d", "numpy.setdiff1d", "numpy.setxor1d"),
    "numpy.union1d",
}
FIRST = {
    *("x", "x1", "a", "a1", "arr", "array", "ary", "ar", "ar1", "m", "p", "z", "A", "val", "operand", "n", "q"),
    *("element", "lhs", "filt", "seq_of_zeros", "y", "u", "object", "prototype", "condition", "keys", "data"),
}
SECOND = {"x2", "b", "v", "y", "a2", "ar2", "rhs", "test_elements", "k", "q", "lmbda", "values", "x"}
NAMES = ("x", "y", "z", "u", "v", "m", "images")


class Trial(NamedTuple):
    """A function of arrays: `call(*operands)`; `text` shows it, `operands` names its arguments."""

    text: str
    operands: tuple[str, ...]
    call: Callable[..., Any]


def functions(module: str) -> list[str]:
    """The public functions of a module that take arrays."""
    space = importlib.import_module(f"fgrad.{module}")
    skip = NO_ARRAY.get(module, "").split()
    return [
        name
        for name in sorted(space.__all__)
        if callable(getattr(space, name)) and not inspect.isclass(getattr(space, name)) and name not in skip
    ]


def examples(module: str) -> dict[str, str]:
    """The calls of EXAMPLES by the function's name."""
    found: dict[str, str] = {}
    text = EXAMPLES.get(module, "")
    while match := re.match(r"\s*(\w+)\(", text):
        depth = 0
        for end, character in enumerate(text):
            depth += (character in "([{") - (character in ")]}")
            if not depth and character in ")]" and not text[end + 1 : end + 2].strip():
                break
        found[match[1]] = text[: end + 1].strip()
        text = text[end + 1 :]
    assert not text.strip(), text
    return found


def trial(module: str, name: str) -> Trial:
    """How to call a function: as in EXAMPLES, or by the names of the parameters it needs."""
    space = importlib.import_module(f"fgrad.{module}")
    text = examples(module).get(name)
    if text is None:
        needed = [
            p.name
            for p in inspect.signature(getattr(space, name)).parameters.values()
            if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        if not needed or needed[0] not in FIRST or (len(needed) > 1 and needed[1] not in SECOND) or len(needed) > 2:
            raise ValueError(f"EXAMPLES has to say how fgrad.{module}.{name}({', '.join(needed)}) is tried")
        text = f"{name}({', '.join(NAMES[: len(needed)])})"
    used = tuple(n for n in NAMES if re.search(rf"(?<![\w.']){n}\b(?!')", text.partition("(")[2]))
    scope = {"fnp": fnp, "np": np, "lax": lax, "nn": nn, "__function": getattr(space, name)}
    call = eval(f"lambda {', '.join(used)}: __function{text[len(name) :]}", scope)
    if "'i'" in text:  # a collective: over the rows of a first operand
        inner, count = call, len(used)
        call = fgrad.vmap(inner, in_axes=0, axis_name="i") if count else inner
    return Trial(text, used, call)


def arrays(names: Sequence[str], dtype: Any, seed: int, collective: bool) -> list[Any]:
    """The operands of a trial, of one dtype; two seeds give different ones."""
    dtype = np.dtype(dtype)
    made = []
    for name in names:
        rng = np.random.default_rng(seed * 100 + ord(name[0]))
        shape = {"u": (4,), "v": (4,), "images": (1, 4, 4, 2)}.get(name, (3, 3))
        shape = (3, *shape) if collective else shape
        size = int(np.prod(shape))
        values = rng.permutation((np.arange(size) + 0.5) / size * 0.8 + 0.1 + ord(name[0]) % 7 / 150).reshape(shape)
        if name == "m":
            values = values @ values.T + 3 * np.eye(3)
        if dtype.kind in "iu":
            values = values * 3 + 1
        if dtype.kind == "b":
            made.append(values < 0.5)
        elif dtype.kind == "c" and name != "m":
            made.append((values + 1j * rng.permutation(values.ravel()).reshape(shape)).astype(dtype))
        else:
            made.append(values.astype(dtype))
    return made


def leaves(tree: Any) -> list[Any]:
    """The arrays of a result, as NumPy's."""
    return [np.asarray(leaf) for leaf in fgrad.tree_util.tree_leaves(tree)]


def agree(got: list[Any], expected: list[Any]) -> bool:
    """Equal up to rounding, NaN where NaN is expected."""
    return len(got) == len(expected) and all(
        g.shape == e.shape and np.allclose(g.astype(complex), e.astype(complex), 1e-4, 1e-5, equal_nan=True)
        for g, e in zip(got, expected, strict=True)
    )


REFUSALS = (TypeError, ValueError, NotImplementedError, fgrad.errors.FgradError)


def works(check: Callable[[], bool]) -> str:
    """yes, or no if it is refused; a result that is wrong stops everything."""
    try:
        right = check()
    except REFUSALS:
        return "no"
    if not right:
        raise AssertionError("a result is wrong")
    return "yes"


def probe(module: str, name: str) -> list[str]:
    """The row of a function: what works with which dtypes and under which transformation."""
    tried = trial(module, name)
    collective = "'i'" in tried.text
    row = [name]
    best: Any = None
    for kind, dtypes in KINDS.items():
        taken = [dtype for dtype in dtypes if works(lambda d=dtype: runs(tried, d, collective)) == "yes"]
        if taken and (best is None or kind == "float"):
            best = taken[-1]
        row.append("yes" if taken == list(dtypes) else "some" if taken else "no")
    if best is None:
        runs(tried, np.float64, collective)  # raises
    operands = arrays(tried.operands, best, 1, collective)
    outputs = leaves(tried.call(*operands))
    smooth = np.dtype(best).kind == "f" and any(o.dtype.kind in "fc" for o in outputs)
    if f"{module}.{name}" in CONSTANT:
        row += ["0" if works(lambda: is_constant(tried, operands)) == "yes" else "no"] * 2
    else:
        row.append(works(lambda: has_jvp(tried, operands)) if smooth else "-")
        row.append(works(lambda: has_vjp(tried, operands)) if smooth else "-")
    row.append(works(lambda: has_vmap(tried, best, collective)))
    row.append(works(lambda: agree(leaves(fgrad.jit(tried.call)(*operands)), outputs)))
    return [*row, tried.text]


def runs(tried: Trial, dtype: Any, collective: bool) -> bool:
    leaves(tried.call(*arrays(tried.operands, dtype, 1, collective)))
    return True


def tangents(xs: list[Any], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(x.shape).astype(x.dtype) for x in xs]


def smooth_call(tried: Trial) -> Callable[..., list[Any]]:
    """Only the outputs that are real numbers; complex ones by their parts."""

    def call(*xs: Any) -> list[Any]:
        out: list[Any] = []
        for leaf in fgrad.tree_util.tree_leaves(tried.call(*xs)):
            kind = np.dtype(leaf.dtype).kind
            out += [fnp.real(leaf), fnp.imag(leaf)] if kind == "c" else [leaf] if kind == "f" else []
        return out

    return call


def has_jvp(tried: Trial, xs: list[Any]) -> bool:
    """The derivative along a direction is a difference quotient's, where both are finite."""
    f = smooth_call(tried)
    ts = tangents(xs, 1)
    _, out = fgrad.jvp(f, tuple(xs), tuple(ts))
    h = 1e-6
    plus, minus = (leaves(f(*(x + s * h * t for x, t in zip(xs, ts, strict=True)))) for s in (1, -1))
    quotients = [(p - m) / (2 * h) for p, m in zip(plus, minus, strict=True)]
    return all(np.allclose(o, q, 1e-3, 1e-4, equal_nan=True) for o, q in zip(leaves(out), quotients, strict=True))


def is_constant(tried: Trial, xs: list[Any]) -> bool:
    """Every derivative is zero."""
    _, out = fgrad.jvp(smooth_call(tried), tuple(xs), tuple(tangents(xs, 1)))
    return not any(np.any(leaf) for leaf in leaves(out))


def has_vjp(tried: Trial, xs: list[Any]) -> bool:
    """<ct, J t> is <J^T ct, t>."""
    f = smooth_call(tried)
    ts = tangents(xs, 1)
    out, pull = fgrad.vjp(f, *xs)
    cts = tangents(leaves(out), 2)
    back = pull(cts)
    try:
        _, forward = fgrad.jvp(f, tuple(xs), tuple(ts))
    except NotImplementedError:  # a function whose derivative is defined backwards only
        return bool(back is not None)
    left = sum(np.sum(c * t) for c, t in zip(cts, leaves(forward), strict=True))
    right = sum(np.sum(np.asarray(b) * t) for b, t in zip(back, ts, strict=True))
    return bool(np.allclose(left, right, 1e-6, 1e-8, equal_nan=True))


def has_vmap(tried: Trial, dtype: Any, collective: bool) -> bool:
    """Two calls at once give the two results."""
    one, two = (arrays(tried.operands, dtype, seed, collective) for seed in (1, 2))
    together = leaves(fgrad.vmap(tried.call)(*(np.stack(pair) for pair in zip(one, two, strict=True))))
    apart = [np.stack(pair) for pair in zip(leaves(tried.call(*one)), leaves(tried.call(*two)), strict=True)]
    return agree(together, apart)


def read(module: str) -> dict[str, list[str]]:
    """The rows that are kept for a module, by name."""
    path = TABLES / f"{module}.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [[cell.strip("`") for cell in row] for row in csv.reader(file)]
        return {row[0]: row for row in rows[1:]}


def write(module: str, rows: dict[str, list[str]]) -> None:
    """Keep the rows of a module; names and calls are marked as code for the page."""
    TABLES.mkdir(exist_ok=True)
    with (TABLES / f"{module}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for name in sorted(rows):
            _, *marks, text = rows[name]
            writer.writerow([f"``{name}``", *marks, f"``{text}``"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Try what is asked for; the status is 1 if a function could not be tried or gave a wrong result."""
    parser = argparse.ArgumentParser(prog="python docs/support.py", description=__doc__)
    parser.add_argument("--all", action="store_true", help="try again what the tables have")
    parser.add_argument("--only", default="", help="names such as numpy.sin, by commas")
    options = parser.parse_args(arguments)
    only = set(filter(None, options.only.split(",")))
    failures = 0
    for module in MODULES:
        kept = read(module)
        names = functions(module)
        rows = {name: kept[name] for name in names if name in kept}
        for name in names:
            chosen = f"{module}.{name}" in only if only else options.all or name not in kept
            if not chosen:
                continue
            try:
                rows[name] = probe(module, name)
            except Exception as error:  # one function must not hide the others
                failures += 1
                print(f"{module}.{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        write(module, rows)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
