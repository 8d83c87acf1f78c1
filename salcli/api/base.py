"""`ErasingTransformer`: what all estimators share; each is a method of the command line as a transformer.

An estimator adds nothing to its method: it is fitted by the route of `salcli fit`, and has what an artifact has.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from salcli.api.arrays import erase, float_types, is_bfloat16, to_numpy
from salcli.api.constructor import COLUMNS, GUARDED, Y, described, initializer, parameters_of
from salcli.api.labels import label_table
from salcli.commands.fit import fit_rows
from salcli.commands.header import describe_inputs
from salcli.data.labels import GuardedLabels
from salcli.data.source import ArrayReader, Source
from salcli.erasers.artifact import Artifact, read_artifact, write_artifact
from salcli.erasers.base import Eraser, Fit, find_method
from salcli.erasers.linear import LinearEraser
from salcli.erasers.precision import erased_dtype
from salcli.errors import FormatError, LabelError, RankError, UsageError, warn
from salcli.formats.secret import read_secret
from salcli.options import FitOptions
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.progress import Silent

NO_GUARDED = (
    "{0} erases a guarded attribute, and there is none: fit(X, y, guarded=labels). In a pipeline y is the main task, "
    "so it is erased only where {0}(guards='y') says so. To pass labels through a pipeline, enable metadata routing "
    "(sklearn.set_config(enable_metadata_routing=True)), use {0}().set_fit_request(guarded=True), and give the "
    "pipeline's fit guarded=labels"
)
NO_Y = "{}(guards='y') requires y to be passed, but the target y is None"


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit gave."""

    eraser: Eraser
    singular_values: NDArray[np.float64]
    header: dict[str, Any]


def _is_invertible(self: Any) -> bool:
    """Return whether what an estimator does can be undone."""
    if "_fitted" in vars(self) and type(self._fitted.eraser) is not LinearEraser:
        return False
    return self.method in ("sal", "leace", "splince", "inlp") and not self.unit and self.strength < 1


class ErasingTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A method as a transformer (see `SAL`)."""

    method: ClassVar[str]
    guards: str
    numeric: bool | Collection[str]
    strength: float
    seed: int
    noise_key: str | None = None
    _fitted: Fitted

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Make the constructor of an estimator from the parameters of its method."""
        super().__init_subclass__(**arguments)
        if "method" in vars(cls):
            known = parameters_of(cls._parameter_type())
            cls.__init__ = initializer({name: default for name, (default, _) in known.items()})  # type: ignore[method-assign]
            cls.__doc__ = described(cls.__doc__ or "", {name: text for name, (_, text) in known.items()})

    def __init__(self, **parameters: Any) -> None:
        """Keep the parameters; each method has a constructor of its own."""

    @classmethod
    def _parameter_type(cls) -> type:
        return find_method(cls.method).Parameters

    @property
    def _method(self) -> Any:
        return find_method(self.method)

    def _parameters(self, task: str | None) -> Any:
        kind = self._parameter_type()
        names = [each.name for each in fields(kind)]
        values = {name: getattr(self, name) for name in names if name not in COLUMNS}
        return kind(**values, **({"task": task} if "task" in names else {}))

    def fit(self, X: Any, y: Any = None, *, guarded: Any = None) -> Self:
        """Learn what to erase: the same arrays, bit for bit, as `salcli fit` learns on these rows.

        Parameters
        ----------
        X : `[n, d]` rows: array, frame or tensor
        y : `[n]` of the main task, which is ignored; with guards="y", the guarded labels
        guarded : `[n]` classes or (`numeric`) numbers, or several columns: `[n, a]`, a frame, or a dict by name; rows
            where one is None, NaN or empty are not fitted

        Returns
        -------
        the estimator

        Raises
        ------
        ParameterError : a parameter has no such value
        UsageError : there are no labels to erase
        ValueError : rows or labels of another shape or type, NaN in rows, or nothing to erase
        """
        return self._fit(X, self._guarded(y, guarded), None, "")

    def _fit(self, X: Any, guarded: Any, task: Any, task_name: str) -> Self:
        x = self._rows(X, is_new=True)
        if len(x) < 2:
            raise RankError(f"n_samples={len(x)}: one row does not vary with its label; at least 2 are needed")
        table = self._table(guarded, len(x), task, task_name)
        options = self._options(table)
        source = Source([ArrayReader(x, "X")])
        with one_blas_thread():
            found, header = fit_rows(source, table, options, Silent())
        header["inputs"] = self._inputs(table, describe_inputs(source, table)["embeddings"])
        self._keep_sums(found, table, options)
        self._set(Fitted(found.eraser, found.singular_values, header))
        if is_bfloat16(X):
            warn("erased rows that are rounded to bfloat16 may have the attribute again: transform rows of float32")
        if x.dtype.itemsize < 8 and found.eraser.keeps_space and not found.eraser.needs_secret:
            finer = erased_dtype(found.eraser, found.singular_values, source)
            if finer.itemsize > x.dtype.itemsize:
                warn(f"erased rows that are rounded to {x.dtype} have the attribute again: transform rows of {finer}")
        return self

    def transform(self, X: Any) -> Any:
        """Return erased rows: the same bits as `salcli apply` writes.

        Parameters
        ----------
        X : `[n, d]` rows: array, frame or tensor (a tensor is copied to main memory, and passes no gradient on)

        Returns
        -------
        `[n, d']`, an array of the dtype of X if that is float16, float32 or float64, else of float64; a tensor for a
        tensor; a frame where `set_output` requests one

        Raises
        ------
        NotFittedError : nothing was fitted yet
        ValueError : rows of another width, or with NaN
        """
        check_is_fitted(self)
        rows, back = to_numpy(X)
        found = erase(self._change(), self._validated(rows, is_new=False), self.strength)
        is_plain = getattr(self, "_sklearn_output_config", {}).get("transform", "default") == "default"
        return back(found) if is_plain else found

    @available_if(_is_invertible)  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: Any) -> Any:
        """Return rows as they were before `transform` with a strength below 1, to rounding.

        Parameters
        ----------
        X : `[n, d]` transformed rows
        """
        check_is_fitted(self)
        rows, back = to_numpy(X)
        eraser = self.eraser_
        assert isinstance(eraser, LinearEraser)
        return back(eraser.inverse(self._validated(rows, is_new=False), self.strength))

    def _change(self) -> Eraser:
        eraser = self.eraser_
        if eraser.needs_secret and self.noise_key is not None:
            return eraser.keyed(read_secret(self.noise_key))
        if "_features" not in vars(self):
            change = eraser.to_features()
            if change is eraser:
                return eraser
            self._features = change
        found: Eraser = self._features
        return found

    @classmethod
    def from_artifact(cls, path: str) -> Self:
        """Return the fitted estimator of an artifact.

        Parameters
        ----------
        path : of what `salcli fit` or `to_artifact` wrote

        Raises
        ------
        FormatError : it is no artifact, damaged, or was fitted by another method
        """
        artifact = read_artifact(path)
        if artifact.header["method"] != cls.method:
            raise FormatError(
                f"{path}: was fitted by method {artifact.header['method']!r}, {cls.__name__} is {cls.method!r}"
            )
        values = {each.name: getattr(artifact.parameters, each.name) for each in fields(artifact.parameters)}
        values = {name: value for name, value in values.items() if name not in COLUMNS}
        numeric = tuple(each["name"] for each in artifact.header["attributes"] if each["classes"] is None)
        found = cls(**values, numeric=numeric or False, seed=artifact.header["rows"]["rule"].get("seed", 0))
        found.n_features_in_ = artifact.eraser.d
        found._set(Fitted(artifact.eraser, artifact.singular_values, artifact.header))
        return found

    def to_artifact(self, path: str) -> None:
        """Write what was fitted as an artifact, which `salcli apply` and `salcli evaluate` read.

        All arrays are those of `salcli fit` on the same rows, bit for bit, and the header is equal but for `inputs`.

        Parameters
        ----------
        path : of the artifact, .npz

        Raises
        ------
        OutputError : it cannot be written
        """
        write_artifact(path, self.artifact_)

    @property
    def artifact_(self) -> Artifact:
        """What was fitted, as an artifact has it."""
        found = self._solved()
        return Artifact(found.eraser, found.singular_values, found.header)

    @property
    def eraser_(self) -> Eraser:
        """The eraser, which is called with rows `[n, d]`."""
        return self._solved().eraser

    @property
    def singular_values_(self) -> NDArray[np.float64]:
        """`[min(d, c)]` of the matrix whose directions are removed, descending."""
        return self._solved().singular_values

    @property
    def header_(self) -> dict[str, Any]:
        """The artifact's header: attributes, classes and counts, parameters, rank, fitted rows."""
        return self._solved().header

    @property
    def k_(self) -> int:
        """Number of directions that are removed."""
        return self._solved().eraser.k

    def _solved(self) -> Fitted:
        """Return what was fitted."""
        check_is_fitted(self)
        return self._fitted

    def _keep_sums(self, found: Fit[Eraser], table: GuardedLabels, options: FitOptions) -> None:
        """Do nothing; estimators that take rows in parts keep the sums of a fit."""

    def _set(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.__dict__.pop("_features", None)

    @property
    def _n_features_out(self) -> int:
        return self._change().d_out

    def _guarded(self, y: Any, guarded: Any) -> Any:
        """Return the labels to erase.

        Raises
        ------
        UsageError, LabelError : there are none, or two
        """
        name = type(self).__name__
        if self.guards == Y:
            if guarded is not None:
                raise UsageError(f"{name}(guards='y') erases y, and `guarded` is there too: pass one of both")
            if y is None:
                raise LabelError(NO_Y.format(name))
            return y
        if self.guards != GUARDED:
            raise UsageError(f"guards = {self.guards!r}: expected 'guarded' or 'y'")
        if guarded is None:
            raise UsageError(NO_GUARDED.format(name))
        return guarded

    def _table(self, guarded: Any, n: int, task: Any, task_name: str) -> GuardedLabels:
        return label_table(guarded, n, self.guards, self.numeric, task=task, task_name=task_name)

    def _options(self, table: GuardedLabels) -> FitOptions:
        parameters = self._parameters(None if table.task is None else table.task.name)
        return FitOptions(method=self.method, parameters=parameters, seed=self.seed)

    def _inputs(self, table: GuardedLabels, embeddings: dict[str, Any]) -> dict[str, Any]:
        """Return the record of the inputs: arrays have no bytes on disk, and so no hash."""
        return {
            "embeddings": {**embeddings, "hash": None},
            "labels": {"name": table.path, "n": len(table), "hash": None},
        }

    def _rows(self, X: Any, *, is_new: bool) -> NDArray[Any]:
        return self._validated(to_numpy(X)[0], is_new=is_new)

    def _validated(self, X: Any, *, is_new: bool) -> NDArray[Any]:
        found: NDArray[Any] = validate_data(self, X, reset=is_new, dtype=float_types(X), order="C")
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.guards == Y
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
