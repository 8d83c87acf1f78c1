"""`TakesParts`: rows that come in parts, and fits that add up, for methods that need nothing of rows but sums."""

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from salcli.api.base import ErasingTransformer, Fitted
from salcli.api.sums import Sums
from salcli.commands.header import describe_fit
from salcli.data.labels import GuardedLabels
from salcli.data.source import ArrayReader, Source
from salcli.erasers.base import Eraser, Fit, SummedMethod, warn_of_doubts
from salcli.errors import SalcliError
from salcli.options import FitOptions
from salcli.streaming.engine import one_blas_thread

FITTED = ("_fitted", "_sums", "n_features_in_", "feature_names_in_")


def sums_suffice(self: Any) -> bool:
    """Return whether an estimator can add up rows that come in parts."""
    try:
        return bool(self._method.needs_sums_only(self._parameters("task")))
    except SalcliError:
        return True  # a wrong parameter is refused, and explained, by the fit


class TakesParts(ErasingTransformer):
    """An estimator with `partial_fit`, `merge` and `+`."""

    _sums: Sums | None = None

    @available_if(sums_suffice)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, guarded: Any = None) -> Self:
        """Add rows to those that were fitted before, as if all had come at once, to rounding.

        Parts may lack classes; what is erased is found when it is next needed. The labels of all rows are kept.

        Parameters
        ----------
        X, y, guarded : further rows and their labels (see `fit`)

        Raises
        ------
        ValueError : rows of another width or with other names, or labels of another attribute
        """
        return self._partial_fit(X, self._guarded(y, guarded), None, "")

    def _partial_fit(self, X: Any, guarded: Any, task: Any, task_name: str) -> Self:
        x = self._rows(X, is_new=not self.__sklearn_is_fitted__())
        table = self._table(guarded, len(x), task, task_name)
        with one_blas_thread():
            found = Sums.of(Source([ArrayReader(x, "X")]), table, self._method, self._options(table).parameters)
        self._add(found)
        return self

    @available_if(sums_suffice)  # type: ignore[untyped-decorator]
    def merge(self, other: Self) -> Self:
        """Add the rows that another estimator was fitted on, as if this one had been fitted on both.

        Parameters
        ----------
        other : a fitted estimator of the same method and parameters

        Returns
        -------
        the estimator, changed; `a + b` is a new one

        Raises
        ------
        ValueError : it has other parameters, columns or attributes, or was read from an artifact
        """
        check_is_fitted(self)
        check_is_fitted(other)
        if type(other) is not type(self) or other.get_params() != self.get_params():
            raise ValueError(f"{other!r} and {self!r} differ: only fits of one method with equal parameters add up")
        names = [getattr(each, "feature_names_in_", np.arange(each.n_features_in_)).tolist() for each in (self, other)]
        if names[0] != names[1]:
            raise ValueError(
                f"rows of {len(names[0])} and of {len(names[1])} columns, or of other names, do not add up"
            )
        self._add(other._known_sums())
        return self

    def __add__(self, other: Any) -> Self:
        if type(other) is not type(self) or not sums_suffice(self):
            return NotImplemented
        check_is_fitted(self)
        found: Self = clone(self)
        found.__dict__.update({name: value for name, value in vars(self).items() if name in FITTED})
        merged: Self = found.merge(other)
        return merged

    def _known_sums(self) -> Sums:
        if self._sums is None:
            raise ValueError(
                f"{self!r} has no sums of its rows, as it was read from an artifact, or fitted with parameters that "
                "need more than sums: nothing can be added to it; fit again"
            )
        return self._sums

    def _add(self, sums: Sums) -> None:
        self._sums = self._known_sums() + sums if self.__sklearn_is_fitted__() else sums
        for name in ("_fitted", "_features"):
            self.__dict__.pop(name, None)

    def _keep_sums(self, found: Fit[Eraser], table: GuardedLabels, options: FitOptions) -> None:
        self._sums = None
        if found.statistics is not None and sums_suffice(self):
            self._sums = Sums.of_fit(found, table, self._method, options.parameters)

    def _solved(self) -> Fitted:
        """Return what was fitted; sums of parts are solved first."""
        check_is_fitted(self)
        if "_fitted" not in vars(self):
            self._solve()
        return self._fitted

    def _solve(self) -> None:
        sums = self._known_sums()
        table = sums.table()
        method: SummedMethod = self._method
        options = self._options(table)
        if method.centres(options.parameters) != sums.is_centred:
            raise ValueError("`center` was changed after rows were added up: fit again")
        rows = np.flatnonzero(table.is_labelled)
        fitted = range(len(table)) if len(rows) == len(table) else rows
        chosen = table.restricted_to(fitted)
        chosen.require_variety()
        chosen.warn_of_single_rows()
        found = method.fit_sums(sums.statistics, method.summed(chosen), options.parameters)
        warn_of_doubts(found)
        header = describe_fit(options, table, fitted, found, options.rule(has_splits=False))
        about = {"name": "X", "format": ArrayReader.format, "n": len(table), "d": self.n_features_in_, "dtype": ""}
        header["inputs"] = self._inputs(table, about)
        self._set(Fitted(found.eraser, found.singular_values, header))

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() or self._sums is not None
