"""Contraction kernels, with what is fused into them, against NumPy."""

from __future__ import annotations

import kernel_harness as kh
import numpy as np
import pytest

from fgrad.lower.inplace import same_place
from fgrad.lower.limits import Limits
from fgrad.lower.micro.driver import D, Pack
from fgrad.uop import build as ub
from fgrad.uop import dtype as dt
from fgrad.uop.dtype import DType
from fgrad.uop.node import UOp, slot_param, uop
from fgrad.uop.op import Op


def einsum(spec: str, a: UOp, b: UOp) -> UOp:
    """Both operands spread over all letters, multiplied, summed over those not in the result."""
    inputs, out = spec.split("->")
    one, two = inputs.split(",")
    size = dict(zip(one, a.shape, strict=True)) | dict(zip(two, b.shape, strict=True))
    summed = [c for c in size if c not in out]
    order = [*out, *summed]

    def spread(x: UOp, letters: str) -> UOp:
        x = ub.permute(x, [letters.index(c) for c in order if c in letters])
        return ub.expand(x, [(i, size[c]) for i, c in enumerate(order) if c not in letters])

    product = ub.mul(spread(a, one), spread(b, two))
    return ub.reduce_(product, range(len(out), len(order)))


class Case:
    """Parameters with random contents."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.params: list[UOp] = []
        self.arrays: list[np.ndarray] = []

    def __call__(
        self, *shape: int, dtype: DType = dt.float32, low: int = -100, high: int = 100
    ) -> tuple[UOp, np.ndarray]:
        p = slot_param(len(self.params), dtype, shape)
        if dtype.is_float:
            x = self.rng.standard_normal(shape).astype(dtype.np)
        elif dtype is dt.bool_:
            x = self.rng.random(shape) < 0.5
        else:
            x = self.rng.integers(low if dtype.is_signed else 0, high, shape).astype(dtype.np)
        self.params.append(p)
        self.arrays.append(x)
        return p, x

    def run(self, *outs: UOp, limits: Limits | None = None) -> list[np.ndarray]:
        """Results of `outs`."""
        contents = {p: x for p, x in zip(self.params, self.arrays, strict=True)}
        results, self.built, self.text = kh.run(list(outs), contents, limits)
        return results

    @property
    def form(self) -> kh.Form:
        return kh.form_of(self.built)


def close(got: np.ndarray, want: np.ndarray, tol: float = 2e-5) -> None:
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    scale = np.abs(want).max() + 1e-30
    assert np.abs(got.astype(np.float64) - want).max() <= tol * scale


@pytest.mark.parametrize("spec", ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn", "mk,kn->nm"])
@pytest.mark.parametrize("sizes", [(50, 70, 90), (13, 5, 33), (200, 1100, 40), (300, 64, 300)])
def test_matrix_products_of_all_layouts(spec: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    size = {"m": m, "k": k, "n": n}
    c = Case()
    one, two = spec.split("->")[0].split(",")
    a, x = c(*[size[i] for i in one])
    b, y = c(*[size[i] for i in two])
    (got,) = c.run(einsum(spec, a, b))
    close(got, np.einsum(spec, x.astype(np.float64), y.astype(np.float64)))


@pytest.mark.parametrize(
    "spec", ["bmk,bkn->bmn", "bmk,kn->bmn", "bmk,bnk->bmn", "bmhk,bnhk->bhmn", "bhmn,bnhk->bmhk"]
)
def test_batches_and_heads(spec: str) -> None:
    size = {"b": 3, "m": 20, "n": 24, "k": 17, "h": 2}
    c = Case()
    one, two = spec.split("->")[0].split(",")
    a, x = c(*[size[i] for i in one])
    b, y = c(*[size[i] for i in two])
    (got,) = c.run(einsum(spec, a, b))
    close(got, np.einsum(spec, x.astype(np.float64), y.astype(np.float64)))


@pytest.mark.parametrize("vector", [v for v in (16, 32, 64) if v <= kh.host_limits().vector_bytes])
def test_other_vectors_than_the_widest(vector: int) -> None:
    limits = Limits(vector, kh.host_limits().features)
    c = Case()
    a, x = c(37, 60)
    b, y = c(60, 41)
    s, z = c(41)
    out = ub.maximum(ub.add(einsum("mk,kn->mn", ub.exp(a), b), ub.expand(s, [(0, 37)])), 0.0)
    (got,) = c.run(out, limits=limits)
    close(got, np.maximum(np.exp(x.astype(np.float64)) @ y + z, 0))


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if d.is_float or d.is_int], ids=str)
def test_all_dtypes(dtype: DType) -> None:
    c = Case()
    a, x = c(21, 40, dtype=dtype)
    b, y = c(40, 35, dtype=dtype)
    (got,) = c.run(einsum("mk,kn->mn", a, b))
    if dtype.is_int:
        np.testing.assert_array_equal(got, x @ y)  # wraps as NumPy does
    else:
        want = x.astype(np.float64) @ y.astype(np.float64)
        eps, least = float(dt.finfo(dtype).eps), float(dt.finfo(dtype).smallest_subnormal)
        bound = eps * np.abs(want) + least + 1e-5 * (
            np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64))
        )
        inside = np.abs(want) < float(dt.finfo(dtype).max)
        assert (np.abs(got.astype(np.float64) - want) <= bound)[inside].all()


def test_half_factors_with_a_single_precision_sum() -> None:
    c = Case()
    a, x = c(21, 300, dtype=dt.bfloat16)
    b, y = c(300, 35, dtype=dt.float16)
    out = einsum("mk,kn->mn", ub.cast(a, dt.float32), ub.cast(b, dt.float32))
    (got,) = c.run(out)
    close(got, x.astype(np.float64) @ y.astype(np.float64), 1e-6)


def test_bias_and_relu_are_the_epilogue_of_one_kernel() -> None:
    c = Case()
    a, x = c(128, 96)
    b, y = c(96, 160)
    s, z = c(160)
    (got,) = c.run(ub.maximum(ub.add(einsum("mk,kn->mn", a, b), ub.expand(s, [(0, 128)])), 0.0))
    close(got, np.maximum(x.astype(np.float64) @ y + z, 0))


def test_several_outputs_of_one_product() -> None:
    c = Case()
    a, x = c(45, 30)
    b, y = c(30, 50)
    h = einsum("mk,kn->mn", a, b)
    t, positive = ub.tanh(h), ub.lt(ub.const(0, dt.float32, h.shape), h)
    got = c.run(h, t, positive)
    want = x.astype(np.float64) @ y
    close(got[0], want)
    close(got[1], np.tanh(want), 1e-5)
    assert ((got[2] != 0) == (got[0] > 0)).all()


def test_an_update_of_weights_is_an_epilogue_through_a_permuted_output() -> None:
    c = Case()
    x, xs = c(60, 33)
    d, ds = c(60, 47)
    w, ws = c(33, 47)
    grad = einsum("km,kn->nm", x, d)  # as reverse mode leaves it: transposed
    out = ub.sub(w, ub.mul(ub.permute(grad, (1, 0)), ub.const(0.1, dt.float32, (33, 47))))
    (got,) = c.run(out)
    close(got, ws - 0.1 * (xs.astype(np.float64).T @ ds))


@pytest.mark.parametrize("rows,depth", [(40, 50), (300, 50), (40, 1300), (250, 1300)])
def test_factors_are_evaluated_while_they_are_packed(rows: int, depth: int) -> None:
    """Normalised rows on one side, a masked matrix on the other; blocks of k, shared panels."""
    c = Case()
    x, xs = c(rows, depth)
    mean, ms = c(rows)
    keep, ks = c(depth, 40, dtype=dt.bool_)
    w, ws = c(depth, 40)
    a = ub.mul(ub.sub(x, ub.expand(mean, [(1, depth)])), ub.const(0.5, dt.float32, (rows, depth)))
    b = ub.where(keep, w, ub.const(0, dt.float32, w.shape))
    (got,) = c.run(einsum("mk,kn->mn", a, b))
    close(got, ((xs.astype(np.float64) - ms[:, None]) * 0.5) @ np.where(ks, ws, 0))


@pytest.mark.parametrize("spec", ["km,kn->mn", "mk,nk->mn", "km,nk->mn"])
@pytest.mark.parametrize("depth", [30, 1300])
def test_evaluated_factors_in_other_layouts(spec: str, depth: int) -> None:
    size = {"m": 130, "k": depth, "n": 70}
    c = Case()
    one, two = spec.split("->")[0].split(",")
    a, x = c(*[size[i] for i in one])
    b, y = c(*[size[i] for i in two])
    (got,) = c.run(einsum(spec, ub.abs_(a), ub.abs_(b)))
    close(got, np.einsum(spec, np.abs(x).astype(np.float64), np.abs(y).astype(np.float64)))


def test_a_table_is_read_by_a_one_hot_product() -> None:
    c = Case()
    labels, ls = c(55, dtype=dt.int64, low=0, high=20)
    w, ws = c(20, 33)
    hot = ub.eq(ub.expand(labels, [(1, 20)]), ub.expand(ub.iota(20), [(0, 55)]))
    ls[:] = np.abs(ls) % 20
    (got,) = c.run(einsum("mk,kn->mn", ub.cast(hot, dt.float32), w))
    close(got, ws[ls])


def test_gathered_rows_as_a_factor() -> None:
    c = Case()
    idx, i = c(40, dtype=dt.int32)
    i[:] = np.arange(40) % 27
    i[3] = 500  # out of bounds: zeros
    table, t = c(27, 50)
    w, ws = c(50, 33)
    rows = ub.gather(table, idx)
    (got,) = c.run(einsum("mk,kn->mn", rows, w))
    want = np.where((i < 27)[:, None], t[np.minimum(i, 26)], 0).astype(np.float64) @ ws
    close(got, want)


def test_slices_flips_and_pads_of_factors() -> None:
    c = Case()
    a, x = c(40, 60)
    b, y = c(50, 45)
    part = ub.shrink(a, [(3, 18, 2), (5, 50, 1)])
    turned = ub.flip(b, [0, 1])
    wide = ub.pad(turned, [(0, 0, 0), (2, 3, 0)])
    (got,) = c.run(einsum("mk,kn->mn", part, wide))
    want = x[3:39:2, 5:55].astype(np.float64) @ np.pad(y[::-1, ::-1], ((0, 0), (2, 3)))
    close(got, want)


def test_a_start_known_at_run_time_only() -> None:
    c = Case()
    a, x = c(40, 60)
    start, s = c(dtype=dt.int64, low=0, high=1)
    b, y = c(60, 35)
    s[...] = 7
    part = ub.shrink(a, [(None, 20, 1), (0, 60, 1)], [start])
    (got,) = c.run(einsum("mk,kn->mn", part, b))
    assert c.form.a_view is not None  # still read as a strided view
    close(got, x[7:27].astype(np.float64) @ y)


# ---- convolution
def conv(x: UOp, w: UOp, stride: int = 1) -> UOp:
    """NHWC with HWIO, padded by one."""
    n, h, wd, ci = x.shape
    kh_, kw, _, co = w.shape
    x = ub.pad(x, [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)])
    x = ub.window(ub.window(x, 1, kh_, stride), 2, kw, stride)  # n oh ow ci kh kw
    return einsum("nhwckl,klco->nhwo", x, w)


def conv_reference(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    x = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    v = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))[:, ::stride, ::stride]
    return np.einsum("nhwckl,klco->nhwo", v, w.astype(np.float64))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(3, 8), (16, 32), (5, 7)])
def test_convolution_is_one_contraction(stride: int, channels: tuple[int, int]) -> None:
    c = Case()
    x, xs = c(2, 9, 10, channels[0])
    w, ws = c(3, 3, *channels)
    (got,) = c.run(conv(x, w, stride))
    close(got, conv_reference(xs, ws, stride))


def test_gradients_of_a_convolution_are_contractions() -> None:
    c = Case()
    n, h, wd, ci, co = 2, 8, 9, 4, 6
    x, xs = c(n, h, wd, ci)
    d, ds = c(n, h, wd, co)
    w, ws = c(3, 3, ci, co)
    padded = ub.pad(x, [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)])
    v = ub.window(ub.window(padded, 1, 3), 2, 3)
    (dw,) = c.run(einsum("nhwckl,nhwo->klco", v, d))
    px = np.pad(xs.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(px, (3, 3), (1, 2))
    close(dw, np.einsum("nhwckl,nhwo->klco", view, ds.astype(np.float64)))

    # dx: products over output channels, skewed back over the windows, then summed over the taps
    order = ub.mul(
        ub.expand(d, [(3, ci), (4, 3), (5, 3)]),
        ub.expand(ub.permute(w, (2, 0, 1, 3)), [(0, n), (1, h), (2, wd)]),
    )  # n h w ci kh kw co
    taps = ub.reduce_(order, [6])  # n h w ci kh kw
    for axis, kaxis in ((1, 4), (2, 5)):
        o = taps.shape[axis]
        taps = uop(Op.SKEW, (taps,), (axis, kaxis, o + 2, o, 1, 1))
    dx = ub.shrink(ub.reduce_(taps, [4, 5]), [(0, n, 1), (1, h, 1), (1, wd, 1), (0, ci, 1)])
    contraction = kh.find([dx])
    assert contraction is not None and len(contraction.inside) == 2
    c2 = Case()
    c2.params, c2.arrays = [d, w], [ds, ws]
    (got,) = c2.run(dx)
    want = np.zeros((n, h + 2, wd + 2, ci))
    for i in range(3):
        for j in range(3):
            want[:, i : i + h, j : j + wd] += np.einsum(
                "nhwo,co->nhwc", ds.astype(np.float64), ws[i, j]
            )
    close(got, want[:, 1:-1, 1:-1])


# ---- vectors
@pytest.mark.parametrize(
    "spec,matrix", [("mk,k->m", (600, 500)), ("km,k->m", (500, 600)), ("k,km->m", (130, 700))]
)
def test_matrix_times_vector(spec: str, matrix: tuple[int, int]) -> None:
    c = Case()
    shapes = {"mk": matrix, "km": matrix, "k": (matrix[1] if "mk" in spec else matrix[0],)}
    one, two = spec.split("->")[0].split(",")
    a, x = c(*shapes[one])
    b, y = c(*shapes[two])
    s, z = c(matrix[0] if "mk" in spec else matrix[1])
    (got,) = c.run(ub.add(einsum(spec, a, b), s))
    assert c.form.plan.vector_form and c.form.plan.line_at is None
    close(got, np.einsum(spec, x.astype(np.float64), y.astype(np.float64)) + z)


def test_the_vector_may_be_computed_on_the_way() -> None:
    c = Case()
    a, x = c(300, 333)
    v, y = c(333)
    (got,) = c.run(einsum("mk,k->m", a, ub.tanh(v)))
    assert c.form.plan.vector_form and c.form.plan.line_at is not None
    close(got, x.astype(np.float64) @ np.tanh(y.astype(np.float64)))


def test_a_vector_times_a_computed_matrix_takes_the_general_way() -> None:
    c = Case()
    v, y = c(600)
    a, x = c(600, 130)
    contraction = einsum("k,km->m", v, ub.abs_(a))
    assert kh.find([contraction]) is None  # the rows of a row kernel read it in order
    b, z = c(3, 600)
    (got,) = c.run(einsum("bk,km->bm", b, ub.abs_(a)))
    close(got, z.astype(np.float64) @ np.abs(x))
    assert y.shape == (600,)


def test_batches_of_matrix_times_vector() -> None:
    c = Case()
    a, x = c(5, 100, 333)
    v, y = c(5, 333)
    (got,) = c.run(einsum("bmk,bk->bm", a, v))
    assert c.form.plan.vector_form
    close(got, np.einsum("bmk,bk->bm", x.astype(np.float64), y.astype(np.float64)))


# ---- choices
def test_large_plain_products_store_tiles_straight_and_share_packed_columns() -> None:
    c = Case()
    a, x = c(1100, 128)
    b, y = c(128, 320)
    (got,) = c.run(einsum("mk,kn->mn", a, b))
    close(got, x.astype(np.float64) @ y)
    assert c.form.straight is not None and c.form.plan.words[D.LDC] == 320
    assert c.form.plan.words[D.B_MODE] == Pack.SHARED


def test_sums_that_are_no_contractions_are_left_alone() -> None:
    c = Case()
    a, _ = c(40, 50)
    b, _ = c(40, 50)
    mean, _ = c(40)
    flags, _ = c(40, 50, dtype=dt.bool_)
    product = ub.mul(a, b)
    assert kh.find([ub.reduce_(product, [1])]) is None  # both have m
    assert (
        kh.find([ub.reduce_(ub.mul(a, ub.expand(mean, [(1, 50)])), [1])]) is None
    )  # k in one only
    assert kh.find([ub.reduce_(a, [1])]) is None
    assert kh.find([ub.reduce_(ub.mul(flags, flags), [1])]) is None
    assert kh.find([einsum("mk,kn->mn", a, ub.permute(b, (1, 0))), product]) is not None


def test_a_product_with_another_use_is_left_alone() -> None:
    c = Case()
    a, _ = c(40, 50)
    b, _ = c(50, 30)
    out = einsum("mk,kn->mn", a, b)
    assert kh.find([out, out.src[0]]) is None


def test_the_meaning_names_all_ranges_once() -> None:
    c = Case()
    a, _ = c(40, 50)
    b, _ = c(50, 30)
    built = kh.kernels([einsum("mk,kn->mn", a, b)], kh.host_limits(), [a, b])
    loops = [s for s in built.kernel.walk() if type(s).__name__ == "Loop"]
    assert sorted(s.size for s in loops) == [30, 40, 50]


# ---- views above the sum
def test_an_epilogue_may_read_the_sum_through_any_rearrangement() -> None:
    c = Case()
    a, x = c(6, 20)
    b, y = c(20, 35)
    s, z = c(7, 30)
    h = ub.reshape(ub.flip(ub.permute(einsum("mk,kn->mn", a, b), (1, 0)), [0]), (7, 30))
    (got,) = c.run(ub.add(h, s))
    want = (x.astype(np.float64) @ y).T[::-1].reshape(7, 30) + z
    close(got, want)
    assert c.form.sizes == (1, 35, 6, 20)  # neighbours in the output are in lanes


def test_heads_split_from_the_columns_are_stored_in_place() -> None:
    c = Case()
    a, x = c(2 * 5, 24)
    b, y = c(24, 3 * 16)
    h = ub.permute(ub.reshape(einsum("mk,kn->mn", a, b), (2, 5, 3, 16)), (0, 2, 1, 3))
    (got,) = c.run(ub.mul(h, ub.const(0.5, dt.float32, h.shape)))
    close(got, (x.astype(np.float64) @ y).reshape(2, 5, 3, 16).transpose(0, 2, 1, 3) * 0.5)


def test_a_shifted_sum_is_right_where_nothing_is_left_of_it() -> None:
    c = Case()
    a, x = c(12, 40)
    b, y = c(40, 9)
    h = einsum("mk,kn->mn", a, b)
    shifted = ub.pad(ub.shrink(h, [(1, 11, 1), (0, 9, 1)]), [(0, 1, 0), (0, 0, 0)])
    (got,) = c.run(ub.add(shifted, ub.const(1.0, dt.float32, h.shape)))
    want = np.vstack([(x.astype(np.float64) @ y)[1:], np.zeros((1, 9))]) + 1
    close(got, want)


def test_only_what_is_left_of_a_sum_is_computed() -> None:
    c = Case()
    a, x = c(30, 40)
    b, y = c(40, 50)
    part = ub.permute(ub.shrink(einsum("mk,kn->mn", a, b), [(3, 20, 1), (7, 20, 2)]), (1, 0))
    (got,) = c.run(part)
    close(got, (x.astype(np.float64) @ y)[3:23, 7:47:2].T)
    assert c.form.sizes == (1, 20, 20, 40) and c.form.straight is not None


def test_a_view_that_mixes_the_axes_of_a_cut_sum() -> None:
    c = Case()
    a, x = c(12, 40)
    b, y = c(40, 9)
    flat = ub.reshape(einsum("mk,kn->mn", a, b), (108,))
    (got,) = c.run(ub.pad(ub.shrink(flat, [(5, 103, 1)]), [(0, 5, 0)]))
    close(got, np.append((x.astype(np.float64) @ y).reshape(-1)[5:], np.zeros(5)))


def test_many_small_products_share_tasks() -> None:
    c = Case()
    a, x = c(500, 8, 9)
    b, y = c(500, 9, 20)
    (got,) = c.run(einsum("bmk,bkn->bmn", a, b))
    close(got, x.astype(np.float64) @ y)
    assert c.built.kernel.tasks <= 32 < c.form.plan.batch


def test_a_skewed_sum_of_products_with_a_stride() -> None:
    """Transposed convolution: each input spreads over a window of the output."""
    c = Case()
    n, o, ci, co, taps, stride = 2, 6, 5, 18, 3, 2
    d, ds = c(n, o, co)
    w, ws = c(taps, ci, co)
    product = ub.mul(
        ub.expand(d, [(2, ci), (3, taps)]),
        ub.expand(ub.permute(w, (1, 0, 2)), [(0, n), (1, o)]),
    )  # n o ci taps co
    full = (o - 1) * stride + taps
    spread = uop(Op.SKEW, (ub.reduce_(product, [4]),), (1, 3, full, o, stride, 1))
    (got,) = c.run(ub.reduce_(spread, [3]))
    want = np.zeros((n, full, ci))
    for t in range(taps):
        want[:, t : t + o * stride : stride] += ds.astype(np.float64) @ ws[t].astype(np.float64).T
    close(got, want)


# ---- memory
def test_the_old_weights_may_lie_where_the_new_ones_go() -> None:
    c = Case()
    x, _ = c(60, 33)
    d, _ = c(60, 47)
    w, _ = c(33, 47)
    out = ub.sub(w, einsum("km,kn->mn", x, d))
    built = kh.kernels([out], kh.host_limits(), [x, d, w])
    assert same_place(built.kernel) == [(2, 3)]


def test_a_factor_may_not_lie_where_the_product_goes() -> None:
    c = Case()
    a, _ = c(40, 40)
    b, _ = c(40, 40)
    out = ub.add(einsum("mk,kn->mn", a, b), a)
    assert same_place(kh.kernels([out], kh.host_limits(), [a, b]).kernel) == []
