"""The methods as estimators of scikit-learn: `SAL`, `LEACE`, `SPLINCE`, `INLP`, `KernelSAL`, `Transport`, `Auto`."""

from typing import Any, Self

from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin
from sklearn.utils.metaestimators import available_if

from salcli.api.base import ErasingTransformer
from salcli.api.constructor import GUARDED
from salcli.api.parts import TakesParts, sums_suffice
from salcli.errors import UsageError


class SAL(OneToOneFeatureMixin, TakesParts):  # type: ignore[misc]
    """Removes the directions that covary most with the guarded labels (`salcli fit --method sal`).

    Spectral Attribute removaL of Shao, Ziser & Cohen 2023: an orthogonal projection off the left singular vectors of
    Cov(x, z), which scikit-learn's `PLSSVD` calls `x_weights_`.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import SAL
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 50)
    >>> X = rng.normal(size=(100, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> sal = SAL().fit(X, guarded=gender)
    >>> sal.k_
    1
    >>> erased = sal.transform(X)
    >>> bool(np.allclose(erased[gender == "f"].mean(axis=0), erased[gender == "m"].mean(axis=0)))
    True

    Rows may come in parts, and fits may be added up:

    >>> parts = SAL().fit(X[:50], guarded=gender[:50]) + SAL().fit(X[50:], guarded=gender[50:])
    >>> bool(np.allclose(parts.transform(X), erased))
    True
    """

    method = "sal"


class LEACE(OneToOneFeatureMixin, TakesParts):  # type: ignore[misc]
    """Removes what is correlated with the guarded labels by the smallest change (`salcli fit --method leace`).

    Least-squares concept erasure of Belrose et al. 2023, for models that are not retrained.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import LEACE
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 50)
    >>> X = rng.normal(size=(100, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> erased = LEACE().fit_transform(X, guarded=gender)
    >>> bool(np.allclose(np.cov(erased.T, gender == "f")[-1, :-1], 0))
    True
    """

    method = "leace"


class SPLINCE(OneToOneFeatureMixin, TakesParts):  # type: ignore[misc]
    """Removes what LEACE removes, and keeps the covariance with the main task (`salcli fit --method splince`).

    Holstege, Ravfogel & Wouters 2025. The main task is y, as it is in a pipeline; with guards="y", where y is erased,
    `fit` takes it as `task`.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import SPLINCE
    >>> rng = np.random.default_rng(0)
    >>> gender, job = rng.permutation(["f", "m"] * 50), rng.permutation(["nurse", "poet"] * 50)
    >>> X = rng.normal(size=(100, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> X += np.outer(job == "poet", [2, 2, 0, 0, 0])
    >>> erased = SPLINCE().fit(X, job, guarded=gender).transform(X)
    >>> bool(np.allclose(np.cov(erased.T, job == "poet")[-1, :-1], np.cov(X.T, job == "poet")[-1, :-1]))
    True
    """

    method = "splince"

    def fit(self, X: Any, y: Any = None, *, guarded: Any = None, task: Any = None) -> Self:
        """Learn what to erase and what to keep (see `SAL.fit`).

        Parameters
        ----------
        X : `[n, d]` rows: array, frame or tensor
        y : `[n]` classes of the main task; with guards="y", the guarded labels
        guarded : the guarded labels
        task : `[n]` classes of the main task instead of y, None where there is none; with guards="y" and without it,
            nothing is kept but what `LEACE` keeps, with a warning

        Raises
        ------
        UsageError : there is no main task and guards="guarded", or there are no labels to erase
        """
        return self._fit(X, self._guarded(y, guarded), *self._task(y, task))

    @available_if(sums_suffice)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, *, guarded: Any = None, task: Any = None) -> Self:
        """Add rows to those that were fitted before (see `SAL.partial_fit`, and `fit` for the arguments)."""
        return self._partial_fit(X, self._guarded(y, guarded), *self._task(y, task))

    def _task(self, y: Any, task: Any) -> tuple[Any, str]:
        if task is not None:
            return task, "task"
        if self.guards != GUARDED:
            return None, ""
        if y is not None:
            return y, "y"
        raise UsageError("SPLINCE keeps a main task, and there is none: fit(X, y, guarded=labels), or `task=classes`")


class INLP(OneToOneFeatureMixin, ErasingTransformer):  # type: ignore[misc]
    """Removes the normals of linear classifiers, round after round (`salcli fit --method inlp`).

    Iterative nullspace projection of Ravfogel et al. 2020. Rounds end when classifiers are at chance on held-out rows.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import INLP
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 100)
    >>> X = rng.normal(size=(200, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> INLP().fit_transform(X, guarded=gender).shape
    (200, 5)
    """

    method = "inlp"


class KernelSAL(ClassNamePrefixFeaturesOutMixin, ErasingTransformer):  # type: ignore[misc]
    """Removes directions of a kernel's feature space, and returns features (`salcli kfit`).

    Kernel SAL of Shao, Ziser & Cohen 2023. What is returned are vectors of features, whose inner products are those of
    erased rows.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import KernelSAL
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 50)
    >>> X = rng.normal(size=(100, 3)) * np.where(gender == "f", 1, 3)[:, None]
    >>> ksal = KernelSAL(kernel="poly", degree=2).fit(X, guarded=gender)
    >>> ksal.transform(X).shape
    (100, 10)
    >>> ksal.get_feature_names_out()[0]
    'kernelsal0'
    """

    method = "ksal"


class Transport(OneToOneFeatureMixin, ErasingTransformer):  # type: ignore[misc]
    """Maps the rows of all classes to one Gaussian, against nonlinear readers (`salcli fit --method transport`).

    It needs many rows. There is no `partial_fit`: shrinkage and gate are chosen by held-out rows in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import Transport
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 200)
    >>> X = rng.normal(size=(400, 3)) * np.where(gender == "f", 1, 3)[:, None] + np.outer(gender == "f", [2, 0, 0])
    >>> Transport(shrinkage=0.1).fit_transform(X, guarded=gender).shape
    (400, 3)
    """

    method = "transport"


class Auto(OneToOneFeatureMixin, ErasingTransformer):  # type: ignore[misc]
    """Takes the gentlest eraser that leaks less than a limit on held-out rows (`salcli fit --method auto`).

    It tries sal, leace, inlp and transport. What was chosen is `header_["method"]`, and its artifact is read by the
    estimator of that method; what was tried is `header_["auto"]`.

    Examples
    --------
    >>> import numpy as np
    >>> from salcli import Auto
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 100)
    >>> X = rng.normal(size=(200, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> auto = Auto(max_leak=0.5, attackers=("linear",)).fit(X, guarded=gender)
    >>> auto.header_["method"], auto.k_
    ('sal', 1)
    """

    method = "auto"
