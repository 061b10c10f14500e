"""Vector quantization: observations as the nearest entries of a code book."""

from __future__ import annotations

from fgrad.errors import ShapeError, note_user_line
from fgrad.numpy.common import need, public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike, Tracer, promoted
from fgrad.uop import build
from fgrad.uop import dtype as dt
from fgrad.uop.op import Op

__all__ = ["vq"]


@public(static=("check_finite",))
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """[m, k], [n, k] -> (the nearest of the n codes for every observation int64[m], its distance [m]).

    Vectors are observations of one feature. `check_finite` is accepted and does nothing.

    >>> vq(fnp.array([[0.0], [5.0]]), fnp.array([[1.0], [4.0]]))
    (Array([0, 1], dtype=int64), Array([1., 1.], dtype=float32))
    """
    (x, codes), dtype, _ = promoted(obs, code_book, least=dt.default_float())
    need(dtype.is_float, "vq", f"it takes real numbers, not {dtype}")
    if x.ndim != codes.ndim or x.ndim not in (1, 2) or x.shape[1:] != codes.shape[1:] or not codes.shape[0]:
        raise note_user_line(
            ShapeError(f"vq takes observations [m, k] and codes [n, k], n > 0, got shapes {x.shape} and {codes.shape}")
        )
    m, n = x.shape[0], codes.shape[0]
    wide = dt.accumulator(dtype)
    x, codes = (build.reshape(build.cast(v, wide), (v.shape[0], v.size // max(v.shape[0], 1))) for v in (x, codes))
    gap = build.sub(build.expand(x, [(1, n)]), build.expand(codes, [(0, m)]))
    square = build.reduce_(build.mul(gap, gap), (2,))
    least = build.reduce_(square, (1,), Op.MIN)
    hit = build.eq(square, build.expand(least, [(1, n)]))
    place = build.where(hit, build.iota_along((m, n), 1), build.const(n, dt.int64, (m, n)))
    code = build.minimum(build.reduce_(place, (1,), Op.MIN), n - 1)  # of NaN the last
    zero = build.eq(least, 0)  # where the distance has no slope, it counts as 0
    distance = build.sqrt(build.where(zero, build.const_like(1, least), least))
    distance = build.where(zero, build.zeros_like(least), distance)
    return Tracer(code), Tracer(build.cast(distance, dtype))
