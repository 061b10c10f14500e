"""Cosine transforms, images, interpolation, quantization and rotations, against SciPy."""

import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
from scipy.spatial import transform as judge

import fgrad
import fgrad.numpy as fnp
from fgrad import grad, jit, vmap
from fgrad.errors import ArgumentError, ShapeError
from fgrad.scipy import cluster, fft, integrate, interpolate, ndimage
from fgrad.scipy.spatial import transform

R = np.random.default_rng(4)


def near(got: Any, wanted: Any, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-10, atol=atol)


# ---- cosine transforms
@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_cosine_transforms(n: int, norm: str | None) -> None:
    x = R.normal(size=(3, n))
    for name, kind in itertools.product(("dct", "idct"), (2, 3)):
        near(getattr(fft, name)(x, kind, norm=norm), getattr(scipy.fft, name)(x, kind, norm=norm))
    near(fft.idct(fft.dct(x, axis=0), axis=0), x)


def test_cosine_transforms_of_several_axes_and_other_numbers() -> None:
    x = R.normal(size=(5, 2))
    near(fft.dctn(x, s=(12, 7)), scipy.fft.dctn(x, s=(12, 7)))
    near(fft.idctn(x, s=(4,), norm="ortho"), scipy.fft.idctn(x, s=(4,), norm="ortho"))
    near(fft.dctn(x, axes=(0,)), scipy.fft.dctn(x, axes=(0,)))
    near(fft.dct(x * (1 + 2j), n=3), scipy.fft.dct(x * (1 + 2j), n=3))
    assert fft.dct(np.arange(3, dtype=np.float16)).dtype == np.float16
    near(grad(lambda v: fft.dct(v)[1])(x[:, 0]), 2 * np.cos(np.pi * (2 * np.arange(5) + 1) / 10))
    with pytest.raises(ShapeError, match=r"s must have at most x.ndim \(2\) elements, got 3"):
        fft.dctn(x, s=(2, 3, 4))
    with pytest.raises(NotImplementedError, match="type=1 is not there"):
        fft.dct(x, 1)
    with pytest.raises(ArgumentError, match="norm must be"):
        fft.dct(x, norm="half")
    with pytest.raises(ShapeError, match="at least 1 element, got 0"):
        fft.dct(x[:, :0])


# ---- images
@pytest.mark.parametrize(
    ("mode", "same_as"),
    [("constant", "grid-constant"), ("nearest", "nearest"), ("wrap", "grid-wrap"), ("mirror", "mirror"),
     ("reflect", "reflect")],
)  # fmt: skip
def test_images_between_and_beyond_their_elements(mode: str, same_as: str) -> None:
    for shape, order in (((5,), 0), ((1, 4), 1)):
        x, at = R.normal(size=shape), [R.uniform(-2, 2, 40) * n for n in shape]
        wanted = scipy.ndimage.map_coordinates(x, at, order=order, mode=same_as, cval=-1.5)
        near(ndimage.map_coordinates(x, at, order, mode, cval=-1.5), wanted)


def test_images_of_integers_and_their_errors() -> None:
    x, at = np.arange(-3, 3), np.array([0.5, 1.5, 2.5, 3.5])
    for order in (0, 1):
        found = ndimage.map_coordinates(x, [at], order)
        assert found.dtype == x.dtype
        assert np.array_equal(found, scipy.ndimage.map_coordinates(x, [at], order=order))
    slope = grad(lambda d: ndimage.map_coordinates(np.arange(9.0) ** 2, [np.array([2.5]) + d], 1)[0])(0.0)
    assert float(slope) == 5
    with pytest.raises(NotImplementedError, match="requires order<=1"):
        ndimage.map_coordinates(x, [at], 2)
    with pytest.raises(NotImplementedError, match="does not yet support mode 'grid-wrap'"):
        ndimage.map_coordinates(x, [at], 1, "grid-wrap")
    with pytest.raises(ShapeError, match="sequence of length 1"):
        ndimage.map_coordinates(x, [[at], [at]], 1)


# ---- grids
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, None, 3.0])
def test_interpolation_on_a_grid(method: str, fill: float | None) -> None:
    points = np.sort(R.normal(size=6)), np.sort(R.normal(size=4))
    values, at = R.normal(size=(6, 4, 2)), R.normal(size=(30, 2))
    wanted = scipy.interpolate.RegularGridInterpolator(points, values, method, False, fill)(at)
    near(interpolate.RegularGridInterpolator(points, values, method, False, fill)(at), wanted)

    @jit
    def traced(values, at):
        return interpolate.RegularGridInterpolator(points, values, method, False, fill)((at[:, 0], at[:, 1]))

    near(traced(values, at), wanted)


def test_interpolation_on_a_line_and_its_errors() -> None:
    line = interpolate.RegularGridInterpolator((np.arange(3.0),), np.array([0.0, 1, 4]), bounds_error=True)
    near(line(np.array([0.5, 1.5])), [0.5, 2.5])
    near(line(np.array([1.2]), "nearest"), [1.0])
    assert float(grad(lambda x: interpolate.RegularGridInterpolator((np.arange(3.0),), np.array([0.0, 1, 4]))(x)[0])(
        np.array([1.5]))[0]) == 3  # fmt: skip
    with pytest.raises(ValueError, match="out of bounds in dimension 0"):
        line(np.array([2.5]))
    with pytest.raises(ShapeError, match="axis 0 has 3 values, and points of shape"):
        interpolate.RegularGridInterpolator((np.arange(2.0),), np.zeros(3))
    with pytest.raises(ArgumentError, match="'linear' or 'nearest', got 'cubic'"):
        interpolate.RegularGridInterpolator((np.arange(3.0),), np.zeros(3), "cubic")


def test_quantization_and_trapezoids() -> None:
    x, codes = R.normal(size=(20, 3)), R.normal(size=(5, 3))
    for got, wanted in zip(cluster.vq.vq(x, codes), scipy.cluster.vq.vq(x, codes), strict=True):
        near(got, wanted)
    near(cluster.vq.vq(x[:, 0], codes[:, 0])[0], scipy.cluster.vq.vq(x[:, :1], codes[:, :1])[0])
    assert np.isfinite(np.asarray(grad(lambda v: cluster.vq.vq(v, codes)[1].sum())(codes[:2]))).all()
    with pytest.raises(ShapeError, match="vq takes observations"):
        cluster.vq.vq(x, codes[:, :2])
    near(integrate.trapezoid(x, dx=0.5, axis=0), scipy.integrate.trapezoid(x, dx=0.5, axis=0))


# ---- rotations
Q = R.normal(size=(6, 4))
OURS, THEIRS = transform.Rotation.from_quat(Q), judge.Rotation.from_quat(Q)


def test_rotations_are_shown_as_scipy_shows_them() -> None:
    for form in ("as_quat", "as_matrix", "as_rotvec", "as_mrp", "magnitude"):
        near(getattr(OURS, form)(), getattr(THEIRS, form)())
        near(getattr(OURS[2], form)(), getattr(THEIRS[2], form)())
    near(OURS.as_quat(canonical=True, scalar_first=True), THEIRS.as_quat(canonical=True, scalar_first=True))
    near(OURS.as_rotvec(degrees=True), THEIRS.as_rotvec(degrees=True))
    half_turns = np.array([[-1.0, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 0]])
    got = transform.Rotation.from_quat(half_turns).as_quat(canonical=True)
    near(got, judge.Rotation.from_quat(half_turns).as_quat(canonical=True))


def test_rotations_are_made_of_everything() -> None:
    v = Q[:, :3]
    m = THEIRS.as_matrix()
    for form, data in (("from_matrix", m), ("from_rotvec", v), ("from_mrp", v), ("from_rotvec", v * 0)):
        near(getattr(transform.Rotation, form)(data).as_matrix(), getattr(judge.Rotation, form)(data).as_matrix())
        near(getattr(transform.Rotation, form)(data[0]).as_matrix(), getattr(judge.Rotation, form)(data[0]).as_matrix())
    near(transform.Rotation.from_rotvec(v * 30, degrees=True).as_matrix(),
         judge.Rotation.from_rotvec(v * 30, degrees=True).as_matrix())  # fmt: skip
    assert transform.Rotation.identity(3).as_quat().shape == (3, 4)
    sizes = np.linalg.norm(transform.Rotation.random(fgrad.random.key(0), 9).quat, axis=1)
    near(sizes, 1, 1e-6)
    both = transform.Rotation.concatenate([OURS, OURS[0]])
    near(both.as_matrix()[[0, -1]], THEIRS.as_matrix()[[0, 0]])


@pytest.mark.parametrize("seq", ["xyz", "zxz", "YZX", "XYX"])
def test_angles_about_three_axes(seq: str) -> None:
    near(OURS.as_euler(seq), THEIRS.as_euler(seq))
    near(OURS[0].as_euler(seq, degrees=True), THEIRS[0].as_euler(seq, degrees=True))
    near(transform.Rotation.from_euler(seq, Q[:, :3]).as_matrix(), judge.Rotation.from_euler(seq, Q[:, :3]).as_matrix())
    locked = (0.0, np.pi) if len(set(seq.lower())) < 3 else (np.pi / 2, -np.pi / 2)
    turns = judge.Rotation.from_euler(seq, [[0.3, m, 0.5] for m in locked])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy warns that the third angle is arbitrary
        near(transform.Rotation.from_quat(turns.as_quat()).as_euler(seq), turns.as_euler(seq))


def test_angles_about_fewer_axes_and_bad_sequences() -> None:
    for seq in ("x", "xy", "Z"):
        angles = Q[:, : len(seq)]
        near(transform.Rotation.from_euler(seq, angles).as_matrix(), judge.Rotation.from_euler(seq, angles).as_matrix())
    assert transform.Rotation.from_euler("z", 90, degrees=True).single
    for seq in ("xxy", "xyzx", "xYz", "abc", ""):
        with pytest.raises(ArgumentError, match="seq is up to three of"):
            transform.Rotation.from_euler(seq, np.zeros(max(len(seq), 1)))
    with pytest.raises(ArgumentError, match="needs three axes"):
        OURS.as_euler("xy")


def test_rotations_are_applied_composed_and_averaged() -> None:
    v, w = Q[:, 1:], R.uniform(size=6)
    near(OURS.apply(v, inverse=True), THEIRS.apply(v, inverse=True))
    near(OURS.apply(v[0]), THEIRS.apply(v[0]))
    near(OURS[1].apply(v), THEIRS[1].apply(v))
    near((OURS * OURS[3].inv()).as_matrix(), (THEIRS * THEIRS[3].inv()).as_matrix())
    near(OURS.mean(w).as_matrix(), THEIRS.mean(w).as_matrix(), 1e-10)
    near(vmap(lambda r, x: r.apply(x))(OURS, v), THEIRS.apply(v))
    assert len(OURS) == 6 and not OURS.single and OURS[2:4].quat.shape == (2, 4)
    near(pickle.loads(pickle.dumps(OURS)).quat, OURS.quat)
    near(grad(lambda x: transform.Rotation.from_rotvec(x).as_rotvec()[0])(np.zeros(3)), [1, 0, 0])
    assert np.isfinite(np.asarray(grad(lambda q: transform.Rotation.from_quat(q).as_matrix()[0, 1])(Q[0]))).all()
    with pytest.raises(TypeError, match="single rotation"):
        OURS[0][0]
    with pytest.raises(ShapeError, match=r"from_quat takes \[4\] or \[n, 4\], got shape \(3,\)"):
        transform.Rotation.from_quat(np.ones(3))
    with pytest.raises(ShapeError, match="a weight for each of 6"):
        OURS.mean(w[:3])


def test_interpolation_between_rotations() -> None:
    times, at = np.array([0.0, 1, 2.5, 3, 4, 6]), np.array([0, 0.3, 2.5, 5.9, 6])
    ours, theirs = transform.Slerp(times, OURS), judge.Slerp(times, THEIRS)
    near(ours(at).as_matrix(), theirs(at).as_matrix())
    near(jit(lambda s, t: s(t).as_rotvec())(ours, 0.3), theirs(0.3).as_rotvec())
    assert transform.Slerp.init(times, OURS)(1.0).single
    with pytest.raises(ShapeError, match="a time for each of at least 2 rotations"):
        transform.Slerp(times[:2], OURS)
    assert isinstance(fnp.asarray(ours.times), fgrad.Array)
