"""Rotations of space, and interpolation between them, under SciPy's names.

Formulas are those of Shuster, A Survey of Attitude Representations (1993), unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.errors import ArgumentError, ShapeError, note_user_line
from fgrad.numpy.common import as_array
from fgrad.random.continuous import normal
from fgrad.run.eager import public
from fgrad.trace.arraylike import Array
from fgrad.trace.tracer import ArrayLike
from fgrad.tree_util import register_pytree_node

__all__ = ["Rotation", "Slerp"]


def _parts(q: Any) -> list[Any]:
    return [q[..., i] for i in range(q.shape[-1])]


def _unit(x: Any) -> Any:
    return x / fnp.sqrt(fnp.sum(x * x, -1, keepdims=True))


def _floating(x: ArrayLike, name: str, last: tuple[int, ...]) -> Any:
    x = as_array(x)
    if x.shape[-len(last) :] != last or x.ndim > len(last) + 1:
        shape = ", ".join(map(str, last))
        raise note_user_line(ShapeError(f"Rotation.{name} takes [{shape}] or [n, {shape}], got shape {x.shape}"))
    return fnp.multiply(x, 1.0)  # integers become the default float


@public()
def _product(p: Any, q: Any) -> Any:
    """The quaternion product: first q, then p."""
    px, py, pz, pw = _parts(p)
    qx, qy, qz, qw = _parts(q)
    return fnp.stack(
        [
            pw * qx + px * qw + py * qz - pz * qy,
            pw * qy + py * qw + pz * qx - px * qz,
            pw * qz + pz * qw + px * qy - py * qx,
            pw * qw - px * qx - py * qy - pz * qz,
        ],
        -1,
    )


@public()
def _normalised(q: Any) -> Any:
    return _unit(q)


@public()
def _matrix(q: Any) -> Any:
    x, y, z, w = _parts(q)
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return fnp.stack([fnp.stack(row, -1) for row in rows], -2)


@public()
def _from_matrix(m: Any) -> Any:
    """Of the four ways to find a quaternion, each by another largest component, the one that divides by most."""
    a = [[m[..., i, j] for j in range(3)] for i in range(3)]
    trace = a[0][0] + a[1][1] + a[2][2]
    ways = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        way: list[Any] = [None] * 4
        way[i], way[j], way[k] = 1 - trace + 2 * a[i][i], a[j][i] + a[i][j], a[k][i] + a[i][k]
        way[3] = a[k][j] - a[j][k]
        ways.append(fnp.stack(way, -1))
    ways.append(fnp.stack([a[2][1] - a[1][2], a[0][2] - a[2][0], a[1][0] - a[0][1], 1 + trace], -1))
    best = fnp.argmax(fnp.stack([a[0][0], a[1][1], a[2][2], trace], -1), -1)[..., None]
    out = ways[3]
    for i in range(3):
        out = fnp.where(best == i, ways[i], out)
    return _unit(out)


@public()
def _rotvec(q: Any) -> Any:
    """Axis times angle, the angle between 0 and pi."""
    q = fnp.where(q[..., 3:] < 0, -q, q)
    square = fnp.sum(q[..., :3] * q[..., :3], -1, keepdims=True)
    is_small = square < 1e-6
    size = fnp.sqrt(fnp.where(is_small, 1, square))
    factor = 2 * fnp.arctan2(size, q[..., 3:]) / size
    series = 2 + square / 3  # of 2 asin(s) / s
    return q[..., :3] * fnp.where(is_small, series, factor)


@public()
def _from_rotvec(v: Any) -> Any:
    square = fnp.sum(v * v, -1, keepdims=True)
    is_small = square < 1e-6
    angle = fnp.sqrt(fnp.where(is_small, 1, square))
    scale = fnp.where(is_small, 0.5 - square / 48, fnp.sin(angle / 2) / angle)
    last = fnp.where(is_small, 1 - square / 8, fnp.cos(angle / 2))
    return fnp.concatenate([v * scale, last], -1)


@public()
def _mrp(q: Any) -> Any:
    sign = fnp.where(q[..., 3:] < 0, -1, 1)
    return sign * q[..., :3] / (1 + sign * q[..., 3:])


@public()
def _from_mrp(v: Any) -> Any:
    square = fnp.sum(v * v, -1, keepdims=True)
    return fnp.concatenate([2 * v, 1 - square], -1) / (1 + square)


@public()
def _applied(q: Any, v: Any) -> Any:
    return fnp.sum(_matrix(q) * v[..., None, :], -1)


@public(static=("axes", "extrinsic"))
def _from_euler(angles: Any, axes: tuple[int, ...], extrinsic: bool) -> Any:
    out = None
    for k, axis in enumerate(axes):
        half = angles[..., k] / 2
        zero = fnp.zeros_like(half)
        parts = [zero, zero, zero, fnp.cos(half)]
        parts[axis] = fnp.sin(half)
        turn = fnp.stack(parts, -1)
        out = turn if out is None else _product(turn, out) if extrinsic else _product(out, turn)
    return out


@public(static=("axes", "extrinsic"))
def _euler(q: Any, axes: tuple[int, ...], extrinsic: bool) -> Any:
    """Angles about three axes (Bernardes and Viollet 2022); where two of them act alike, the third is 0."""
    i, j, k = axes if extrinsic else axes[::-1]
    is_proper = i == k
    if is_proper:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2
    x = _parts(q)
    if is_proper:
        a, b, c, d = x[3], x[i], x[j], x[k] * sign
    else:
        a, b, c, d = x[3] - x[j], x[i] + x[k] * sign, x[j] + x[3], x[k] * sign - x[i]
    middle = 2 * fnp.arctan2(fnp.hypot(c, d), fnp.hypot(a, b))
    near = 1e-7
    is_low, is_high = fnp.abs(middle) <= near, fnp.abs(middle - math.pi) <= near
    total, apart = fnp.arctan2(b, a), fnp.arctan2(d, c)
    first, third = total - apart, total + apart
    first = fnp.where(is_low, 2 * total, fnp.where(is_high, -2 * apart, first))
    third = fnp.where(is_low | is_high, 0, third)
    if not extrinsic:  # there the roles are turned round, and it is the last angle that is 0
        swapped = fnp.where(is_low, 2 * total, 2 * apart)
        first = fnp.where(is_low | is_high, 0, first)
        third = fnp.where(is_low | is_high, swapped, third)
    if not is_proper:
        third = third * sign
        middle = middle - math.pi / 2
    angles = [first, middle, third] if extrinsic else [third, middle, first]
    full = 2 * math.pi
    turns = [fnp.where(v < -math.pi, v + full, fnp.where(v > math.pi, v - full, v)) for v in angles]
    return fnp.stack(turns, -1)


@public()
def _mean(q: Any, weights: Any) -> Any:
    """The eigenvector of the largest eigenvalue of the sum of w q q^T (Markley et al. 2007)."""
    _, vectors = fnp.linalg.eigh(fnp.einsum("n,ni,nj->ij", weights, q, q))
    return vectors[:, -1]


def _sequence(seq: str, name: str) -> tuple[tuple[int, ...], bool]:
    """-> (axes, whether they are fixed in space)."""
    extrinsic = seq == seq.lower()
    axes = tuple(["xyz".find(c) for c in seq.lower()])
    mixed = not extrinsic and seq != seq.upper()
    if not 1 <= len(axes) <= 3 or -1 in axes or mixed or any(a == b for a, b in zip(axes, axes[1:], strict=False)):
        raise note_user_line(
            ArgumentError(
                f"Rotation.{name}: seq is up to three of 'xyz' (axes fixed in space) or 'XYZ' (axes that turn), no two "
                f"neighbours the same, got {seq!r}"
            )
        )
    return axes, extrinsic


class Rotation:
    """One rotation of space, or an array of n of them; a pytree whose leaf is the quaternions.

    quat   [4] or [n, 4], scalar last, of length 1

    >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
    >>> np.allclose(turn.apply(np.array([1.0, 0.0, 0.0])), [0, 1, 0], atol=1e-6)
    True
    """

    def __init__(self, quat: Any) -> None:
        self.quat = quat

    # ---- made of
    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Of quaternions [4] or [n, 4], the scalar last; they are brought to length 1."""
        return cls(_normalised(_floating(quat, "from_quat", (4,))))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Of orthogonal matrices [3, 3] or [n, 3, 3] with determinant 1."""
        return cls(_from_matrix(_floating(matrix, "from_matrix", (3, 3))))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Of vectors [3] or [n, 3]: the axis, as long as the angle."""
        v = _floating(rotvec, "from_rotvec", (3,))
        return cls(_from_rotvec(fnp.deg2rad(v) if degrees else v))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Of modified Rodrigues parameters [3] or [n, 3]: the axis, as long as the tangent of a quarter angle."""
        return cls(_from_mrp(_floating(mrp, "from_mrp", (3,))))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Of angles about up to three axes, e.g. "zyx": [k] or [n, k]; of one axis also a number or [n].

        seq   lower case: axes fixed in space; upper case: axes that turn along
        """
        axes, extrinsic = _sequence(seq, "from_euler")
        x: Any = as_array(angles)
        if len(axes) == 1 and (x.ndim == 0 or x.shape[-1] != 1):
            x = fnp.reshape(x, (*x.shape, 1))
        x = _floating(x, "from_euler", (len(axes),))
        return cls(_from_euler(fnp.deg2rad(x) if degrees else x, axes, extrinsic))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """No rotation, or `num` of them."""
        quat = fnp.array([0, 0, 0, 1], dtype)
        return cls(quat if num is None else fnp.tile(quat, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A uniformly random rotation, or `num` of them."""
        return cls.from_quat(normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several rotations one after the other in one array."""
        return cls(fnp.concatenate([fnp.reshape(r.quat, (-1, 4)) for r in rotations]))

    # ---- shown as
    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions [4] or [n, 4]; `canonical`: of the two that mean the rotation the one with positive scalar (or
        first other part, where that is 0).
        """
        q = self.quat
        if canonical:
            x, y, z, w = _parts(q)
            zero = [v == 0 for v in (w, x, y)]
            below = (w < 0) | zero[0] & ((x < 0) | zero[1] & ((y < 0) | zero[2] & (z < 0)))
            q = fnp.where(below[..., None], -q, q)
        return fnp.roll(q, 1, -1) if scalar_first else q

    def as_matrix(self) -> Array:
        """Matrices [3, 3] or [n, 3, 3]."""
        out: Array = _matrix(self.quat)
        return out

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors [3] or [n, 3]: the axis, as long as the angle (0 to pi)."""
        v = _rotvec(self.quat)
        return fnp.rad2deg(v) if degrees else v

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters [3] or [n, 3]."""
        out: Array = _mrp(self.quat)
        return out

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles [3] or [n, 3] about three axes, as in `from_euler`."""
        axes, extrinsic = _sequence(seq, "as_euler")
        if len(axes) != 3:
            raise note_user_line(ArgumentError(f"Rotation.as_euler needs three axes, got {seq!r}"))
        angles = _euler(self.quat, axes, extrinsic)
        return fnp.rad2deg(angles) if degrees else angles

    # ---- used
    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors [3] or [n, 3], rotated (back, if `inverse`); one rotation serves many vectors, one vector many."""
        v = _floating(vectors, "apply", (3,))
        out: Array = _applied(self.inv().quat if inverse else self.quat, v)
        return out

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """The angle, 0 to pi: [] or [n]."""
        q = self.quat
        size = fnp.sqrt(fnp.sum(q[..., :3] * q[..., :3], -1))
        return 2 * fnp.arctan2(size, fnp.abs(q[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation that is nearest to all, weighted by `weights` [n]."""
        q = fnp.reshape(self.quat, (-1, 4))
        w: Any = fnp.ones(q.shape[0], q.dtype) if weights is None else weights
        if np.shape(w) != (q.shape[0],):
            raise note_user_line(
                ShapeError(f"Rotation.mean needs a weight for each of {q.shape[0]} rotations, got shape {np.shape(w)}")
            )
        return Rotation(_mean(q, fnp.astype(as_array(w), q.dtype)))

    def __mul__(self, other: Any) -> Rotation:
        """First `other`, then this one."""
        return Rotation(_product(self.quat, other.quat)) if isinstance(other, Rotation) else NotImplemented

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("a single rotation has no elements")
        return Rotation(self.quat[index])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("a single rotation has no len()")
        return int(self.quat.shape[0])

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array."""
        return bool(self.quat.ndim == 1)

    def __repr__(self) -> str:
        return f"Rotation.from_quat({self.quat!r})"


@public()
def _between(times: Any, quats: Any, rotvecs: Any, at: Any) -> Any:
    i = fnp.clip(fnp.searchsorted(times, at, "right") - 1, 0, times.shape[0] - 2)
    part = (at - times[i]) / (times[i + 1] - times[i])
    return _product(quats[i], _from_rotvec(rotvecs[i] * part[..., None]))


class Slerp:
    """Interpolation between rotations at given times, with a constant speed from each to the next.

    times       [n], ascending
    rotations   n of them, n > 1

    Called with times [] or [m] it gives the rotations there; beyond the ends it goes on. A pytree.

    >>> ends = Rotation.from_euler("z", np.array([0.0, 90.0]), degrees=True)
    >>> Slerp(np.arange(2.0), ends)(0.5).as_euler("xyz", degrees=True).round(3)
    Array([ 0.,  0., 45.], dtype=float64)
    """

    def __init__(self, times: ArrayLike, rotations: Rotation) -> None:
        if rotations.single or len(rotations) < 2 or np.shape(times) != (len(rotations),):
            raise note_user_line(
                ShapeError(f"Slerp needs a time for each of at least 2 rotations, got times of shape {np.shape(times)}")
            )
        self.times: Any = fnp.multiply(as_array(times), 1.0)
        self.rotations = rotations
        self.rotvecs = (rotations[:-1].inv() * rotations[1:]).as_rotvec()

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The same as Slerp(times, rotations)."""
        return cls(times, rotations)

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at `times`."""
        return Rotation(_between(self.times, self.rotations.quat, self.rotvecs, as_array(times)))


def _slerp_of(_: Any, children: Any) -> Slerp:
    out = object.__new__(Slerp)
    out.times, out.rotations, out.rotvecs = children
    return out


register_pytree_node(Rotation, lambda r: ((r.quat,), None), lambda _, c: Rotation(c[0]))
register_pytree_node(Slerp, lambda s: ((s.times, s.rotations, s.rotvecs), None), _slerp_of)
