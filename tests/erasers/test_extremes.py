"""Numbers at the ends of their range: the eraser of an oracle with more digits, or a refusal in one line."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.erasers.base import Fit
from salcli.erasers.ksal import fit_ksal
from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import fit_sal
from salcli.errors import LabelError, RangeError, RankError, SalcliError
from salcli.linalg.kernels import Kernel
from salcli.linalg.moments import CrossMoments
from salcli.linalg.seeds import direction_scores, seed_direction
from salcli.options import ApplyOptions, FitOptions, LabelOptions

Array = NDArray[Any]
FLOATS = (np.float32, np.float64)


@pytest.fixture(autouse=True)
def nothing_is_said() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def drawn(n: int = 120, d: int = 6, c: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % c)
    return rng.normal(size=(n, d)) + 2 * rng.normal(size=(c, d))[labels], np.eye(c)[labels]


def fitted(x: Array, z: Array, **options: Any) -> Fit[LinearEraser]:
    return fit_sal(CrossMoments.of(x, z), **options)


def projector(eraser: LinearEraser) -> Array:
    return eraser.left @ eraser.right.T


def exact_projector(x: Array, z: Array, k: int, *, centres: bool = True) -> Array:
    """Take Ω in extended precision, near 1, and its first k directions by the plain decomposition."""
    x = x.astype(np.longdouble) / np.longdouble(np.abs(x).max())
    z = z.astype(np.longdouble)
    omega = (x - x.mean(axis=0)).T @ (z - z.mean(axis=0)) if centres else x.T @ z
    u = np.linalg.svd((omega / np.abs(omega).max()).astype(np.float64), full_matrices=False)[0][:, :k]
    return np.asarray(u @ u.T)


def require_equal_means(x: Array, z: Array, tolerance: float) -> None:
    """Hold the differences of class means against the largest number, in extended precision."""
    exact = x.astype(np.longdouble)
    means = np.array([exact[z[:, j] == 1].mean(axis=0) for j in range(z.shape[1])])
    assert np.abs(means - means[0]).max() <= tolerance * np.abs(exact).max()


@pytest.mark.parametrize("centres", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
def test_means_a_million_times_the_signal(dtype: type, centres: bool) -> None:
    x, z = drawn()
    x = (x + 1e6).astype(dtype)
    fit = fitted(x, z, is_centred=centres)
    assert fit.rank == (2 if centres else 3)
    assert_allclose(projector(fit.eraser), exact_projector(x, z, fit.rank, centres=centres), atol=1e-9)
    # Uncentred, the mean itself goes: what is left is measured against the rows before.
    left = fit.eraser(x, dtype=np.float64)
    require_equal_means(left, z, 1e-15 * max(1.0, np.abs(x).max() / np.abs(left).max()))


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, 10.0**e) for e in (-305, -200, -160, -100, -30, 30, 100, 150)]
    + [(np.float32, 10.0**e) for e in (-40, -38, -30, 30, 37)],  # float32: denormal below 1e-38
)
def test_any_scale(dtype: type, scale: float) -> None:
    x, z = drawn()
    x = (x * scale).astype(dtype)
    fit = fitted(x, z)
    assert fit.rank == 2
    assert_allclose(projector(fit.eraser), exact_projector(x, z, 2), atol=1e-11)
    require_equal_means(fit.eraser(x, dtype=np.float64), z, 1e-14)


@pytest.mark.parametrize(("dtype", "least"), [(np.float64, 5e-324), (np.float32, 2.0**-149)])
def test_denormal_rows_lose_all_but_their_last_steps(dtype: type, least: float) -> None:
    x, z = drawn()
    x = (np.rint(x * 1000) * least).astype(dtype)
    assert 0 < np.abs(x).max() < np.finfo(dtype).tiny
    fit = fitted(x, z)
    assert fit.rank == 2
    assert_allclose(projector(fit.eraser), exact_projector(x, z, 2), atol=1e-2)
    require_equal_means(fit.eraser(x), z, 4 * least / np.abs(x).max())


@pytest.mark.parametrize("exponent", [-900, -500, -37, 1, 64, 450])
def test_a_power_of_two_scales_the_result_and_nothing_else(exponent: int) -> None:
    x, z = drawn()
    fit, scaled = fitted(x, z), fitted(np.ldexp(x, exponent), z)
    assert_array_equal(scaled.eraser.left, fit.eraser.left)
    assert_array_equal(scaled.singular_values, np.ldexp(fit.singular_values, exponent))
    assert_array_equal(scaled.eraser(np.ldexp(x, exponent)), np.ldexp(fit.eraser(x), exponent))


@pytest.mark.parametrize("scale", [1e-300, 1e-250, 1e-200, 1e-150, 1e-30, 1.0, 1e30, 1e145])
def test_labels_that_carry_nothing_are_refused_at_every_scale(scale: float) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(50, 6)) * 10.0 ** rng.integers(-3, 4, (50, 6)) * scale
    x = np.concatenate([rows, rng.permutation(rows)])  # both classes have the same rows: only rounding differs
    x, labels = np.concatenate([x, -x]), np.repeat([0, 1, 0, 1], 50)
    with pytest.raises(RankError, match="zero covariance"):
        fitted(x, np.eye(2)[labels])
    assert fitted(x + np.outer(labels, rows[0]), np.eye(2)[labels]).rank == 1  # the control


def test_constant_columns_take_no_part() -> None:
    x, z = drawn()
    x[:, 2], x[:, 4] = 1e6, 0.1
    fit = fitted(x, z)
    assert_allclose(fit.eraser.left[[2, 4]], 0, atol=1e-15)
    assert_allclose(fit.eraser(x)[:, [2, 4]], x[:, [2, 4]], rtol=1e-15)
    assert_allclose(projector(fit.eraser), exact_projector(x, z, 2), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, *FLOATS])
@pytest.mark.parametrize("value", [0.0, 0.1, 1000.1])
def test_rows_that_are_all_equal_carry_nothing(dtype: type, value: float) -> None:
    x, z = np.full((21, 3), value, dtype), np.eye(3)[np.arange(21) % 3]
    with pytest.raises(RankError, match="zero covariance"):
        fitted(x, z)
    with pytest.raises(RankError, match="zero covariance"):
        fit_ksal(x, z, Kernel("rbf"))


def test_repeated_rows_weigh_as_often_as_they_come() -> None:
    x, z = drawn(30)
    one, many = fitted(x, z), fitted(np.repeat(x, 40, axis=0), np.repeat(z, 40, axis=0))
    assert_allclose(projector(many.eraser), projector(one.eraser), atol=1e-13)


@pytest.mark.parametrize(("n", "d", "c"), [(8, 50, 4), (2, 3, 2), (2, 1, 2), (9, 40, 3)])
def test_fewer_rows_than_dimensions(n: int, d: int, c: int) -> None:
    x, z = drawn(n, d, c)
    fit = fitted(x, z)
    assert fit.rank == c - 1
    assert_allclose(projector(fit.eraser), exact_projector(x, z, c - 1), atol=1e-12)
    require_equal_means(fit.eraser(x), z, 1e-14)


@pytest.mark.parametrize("keep_mean", [True, False])
def test_as_many_directions_as_dimensions_leave_one_point(keep_mean: bool) -> None:
    x, z = drawn(80, 3, 8)
    fit = fitted(x, z, keep_mean=keep_mean)
    assert fit.eraser.k == 3
    assert_allclose(fit.eraser(x), np.broadcast_to(x.mean(axis=0) * keep_mean, x.shape), atol=1e-13)
    with pytest.raises(SalcliError, match="nothing is left"):
        fit.eraser.reduce(x)


@pytest.mark.parametrize("copies", ["the same", "negated", "affine"])
def test_collinear_attributes_add_no_direction(copies: str) -> None:
    x, z = drawn(c=2)
    other = {"the same": z, "negated": z[:, ::-1], "affine": 3 * z[:, :1] - 7}[copies]
    both = fitted(x, np.concatenate([z, other], axis=1))
    assert both.rank == 1
    assert_allclose(projector(both.eraser), projector(fitted(x, z).eraser), atol=1e-14)


@pytest.mark.parametrize("dtype", FLOATS)
def test_erasing_twice_is_erasing_once_and_classes_then_agree(dtype: type) -> None:
    x, z = drawn(c=5)
    x = (x + 1000).astype(dtype)
    eraser = fitted(x, z).eraser
    once = eraser(x, dtype=np.float64)
    require_equal_means(once, z, 1e-15)
    assert_allclose(eraser(once), once, rtol=1e-14)


def near_the_end(seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((40, 4)) < 0.5, -1.7e308, 1.7e308)
    return x, np.eye(2)[np.arange(40) % 2]


@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e-152])
def test_values_whose_squares_pass_float64_are_refused_without_a_warning(scale: float) -> None:
    x, z = near_the_end()
    with pytest.raises(RangeError, match="scale the embeddings"):
        fitted(x * scale, z)
    for name in ("rbf", "poly", "linear"):
        with pytest.raises(RangeError, match="scale the embeddings"):
            fit_ksal(x * scale, z, Kernel(name))


def test_what_passes_float64_while_it_is_erased_is_refused_and_never_written() -> None:
    x, z = drawn(d=4)
    eraser = fitted(x, z).eraser
    huge = near_the_end()[0]
    for erase in (eraser, eraser.reduce):
        with pytest.raises(RangeError, match="scale the embeddings down"):
            erase(huge)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-200, 1.0, 1e200, 1e307])
def test_cosines_with_a_direction_do_not_depend_on_the_scale(scale: float) -> None:
    x, _ = drawn()
    near, scaled = seed_direction(x[:1], x[1:2]), seed_direction(x[:1] * scale, x[1:2] * scale)
    tolerance = 1e-2 if scale < 1e-310 else 1e-13
    found = direction_scores(x * scale, scaled, by_cosine=True)
    assert_allclose(found, direction_scores(x, near, by_cosine=True), atol=tolerance)


# Through files


def saved(folder: Path, x: Array, labels: Any, name: str = "y") -> tuple[str, str]:
    np.save(folder / "x.npy", x)
    (folder / "y.csv").write_text("\n".join([name, *map(str, labels)]) + "\n", encoding="utf-8")
    return str(folder / "x.npy"), str(folder / "y.csv")


def test_a_number_that_float16_cannot_hold_is_named_with_its_place_and_no_file_is_left(tmp_path: Path) -> None:
    x, z = drawn(d=4, c=2)
    out = str(tmp_path / "o.npy")
    fit(*saved(tmp_path, x, z[:, 0]), str(tmp_path / "e.npz"), FitOptions())
    u = np.load(tmp_path / "e.npz")["left"][:, 0]
    x[77] = np.eye(4)[np.argmin(np.abs(u))] * 1e5
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(RangeError, match=r"row 77, dimension \d.* does not fit float16"):
        apply(str(tmp_path / "e.npz"), str(tmp_path / "x.npy"), out, ApplyOptions(dtype="float16"))
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "y.csv", "e.npz"}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_the_output_has_the_numbers_of_the_input(tmp_path: Path, dtype: str) -> None:
    x, z = drawn(c=2)
    fit(*saved(tmp_path, x.astype(dtype), z[:, 0]), str(tmp_path / "e.npz"), FitOptions())
    apply(str(tmp_path / "e.npz"), str(tmp_path / "x.npy"), str(tmp_path / "o.npy"), ApplyOptions())
    found = np.load(tmp_path / "o.npy")
    assert found.dtype == np.dtype(dtype)
    arrays = np.load(tmp_path / "e.npz")
    exact = x.astype(dtype).astype(np.float64)
    exact -= (exact - arrays["mean"]) @ arrays["right"] @ arrays["left"].T
    assert_allclose(found, exact, rtol=float(np.finfo(dtype).eps), atol=1e-7)


def test_labels_that_are_all_unique_are_said_and_not_attempted(tmp_path: Path) -> None:
    x, _ = drawn()
    paths = saved(tmp_path, x, [f"name {i}" for i in range(len(x))])
    for method in ("sal", "ksal"):
        with pytest.raises(LabelError, match="every label is unique"):
            fit(*paths, str(tmp_path / "e.npz"), FitOptions(method=method))
    assert not (tmp_path / "e.npz").exists()


@pytest.mark.parametrize("is_numeric", [False, True])
def test_whole_numbers_beyond_64_bits_are_labels_like_others(tmp_path: Path, is_numeric: bool) -> None:
    x, z = drawn(c=2)
    code = z[:, 1].astype(int).tolist()
    paths = saved(tmp_path, x, [2**63 + one * 10**30 for one in code])
    labels = LabelOptions(numeric=("y",)) if is_numeric else LabelOptions()
    artifact = fit(*paths, str(tmp_path / "e.npz"), FitOptions(labels=labels))
    assert isinstance(artifact.eraser, LinearEraser)
    assert_allclose(projector(artifact.eraser), exact_projector(x, z, 1), atol=1e-13)
    classes = artifact.header["attributes"][0]["classes"]
    assert classes == (None if is_numeric else ["1000000000009223372036854775808", "9223372036854775808"])
