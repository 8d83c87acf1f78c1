"""`score=COL`: covariances of classes that are cut from a score, estimated from rows between the classes too.

Where classes are the ends of a score, there are many more rows between them, and moments of rows change slowly with the
score s. So the mean and the second moment of class z are read off a least-squares regression of x and x xᵀ on
φ = (1, s, s²), over the rows of the class and the rows without one that are nearest to it by score, at the mean φ of
the class. That is a weighted mean over these rows, with weights that depend on the scores alone:

    a_i = φ_iᵀ (Σ_j φ_j φ_jᵀ)⁻¹ φ̄_z        Σ a_i = 1
    C_z = Σ a_i x_i x_iᵀ − (Σ a_i x_i)(Σ a_i x_i)ᵀ

Class means, and the posterior, are those of the labelled rows alone.
"""

import os
import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import LabelledRows, settle_index
from salcli.data.labels import Index, as_index
from salcli.data.source import Chunk, Source
from salcli.errors import LabelError, SalcliWarning, UsageError
from salcli.formats.urls import is_url
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.weighted_moments import WeightedSums
from salcli.options import LabelOptions
from salcli.streaming.engine import ordered_map
from salcli.streaming.passes import LabelledSource, join_labels, read_table
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of labelled rows, and of rows without a class."""

    of_labels: Array
    """`[n]` of the labels of the fit."""
    rows: Index
    """`[m]` embedding rows without a class."""
    scores: Array
    """`[m]` of them."""

    @classmethod
    def read(cls, rows: LabelledSource, column: str, progress: Progress) -> "Scores":
        """Read the scores of labelled rows, and of all rows without a class, from the label file.

        Parameters
        ----------
        rows : of the fit; their labels name the file
        column : of the scores
        progress : shows the reading

        Raises
        ------
        UsageError : the labels are in no file, or the column is the guarded one
        LabelError : no such column, a row of the fit without a score, or no row that has a score and no class
        """
        labels = rows.labels
        names = tuple(attribute.name for attribute in labels.attributes)
        if column in names:
            raise UsageError(f"`score={column}`: that column is guarded, expected one of numbers beside it")
        if not (os.path.isfile(labels.path) or is_url(labels.path)):
            raise UsageError(f"`score={column}` is a column of a label file, and these labels are in none")
        options = LabelOptions(
            names, numeric=(column,), no_split=True, key=labels.key_column or None, by_row=labels.key_column is None
        )
        with warnings.catch_warnings():  # whoever read the labels has said it
            warnings.simplefilter("ignore", SalcliWarning)
            table = settle_index(read_table(labels.path, options, progress), rows.source)
            join = join_labels(rows.source, table, progress)
        score = table.attributes[-1].values.astype(np.float64)
        has_class = replace(table, attributes=table.attributes[:-1]).has_any
        row_of_label = as_index(join.row_of_label)
        by_row = np.full(rows.source.n_all, np.nan)
        by_row[row_of_label[row_of_label >= 0]] = score[row_of_label >= 0]
        own = by_row[rows.row_of_label]
        if np.isnan(own).any():
            raise LabelError(
                f"{labels.path}: column {column!r}: {int(np.isnan(own).sum()):,} rows of the fit have no score, the "
                f"first is row {int(rows.row_of_label[np.argmax(np.isnan(own))])}: expected a number for each"
            )
        free = np.flatnonzero(~has_class & ~np.isnan(score) & (row_of_label >= 0))
        if not len(free):
            raise LabelError(
                f"{labels.path}: column {column!r}: no row has a score and no class, expected some between the classes "
                "(`salcli label` writes them with `unlabelled=N`)"
            )
        order = np.argsort(row_of_label[free])
        return cls(own, row_of_label[free][order], score[free][order])

    def covariances(self, rows: LabelledSource, index: Index, origin: Array, progress: Progress) -> tuple[Array, Array]:
        """Return the covariances `[c, d, d]` of the classes, from a pass, and the numbers `[c]` of rows they are worth.

        Parameters
        ----------
        rows : of the fit, with one attribute
        index : `[n]` the labels that take part
        origin : `[d]` near the rows
        progress : shows the pass

        Raises
        ------
        LabelError : the scores of a class and the rows near it have fewer than three values
        """
        attribute = rows.labels.attributes[0]
        codes, n_classes = attribute.codes(index), len(attribute.classes or ())
        own = self.of_labels[index]
        means = np.array([own[codes == code].mean() for code in range(n_classes)])
        nearest = np.argmin(np.abs(self.scores[:, None] - means), axis=1)
        weights, other_weights = np.zeros(len(own)), np.zeros(len(self.scores))
        for code in range(n_classes):
            is_own, is_near = codes == code, nearest == code
            found = regression_weights(own[is_own], self.scores[is_near])
            if found is None:
                raise LabelError(
                    f"{rows.labels.path}: class {(attribute.classes or ())[code]}: its rows, and those near it, have "
                    "fewer than three scores: expected a score that varies"
                )
            weights[is_own], other_weights[is_near] = found[: is_own.sum()], found[is_own.sum() :]
        all_codes, a = np.concatenate([codes, nearest]), np.concatenate([weights, other_weights])
        all_rows = np.concatenate([rows.row_of_label[index], self.rows])
        sums = _summed(rows.source, all_rows, all_codes, a, origin, n_classes, progress)
        return sums.covariances(), 1 / np.bincount(all_codes, a**2, n_classes)


def _summed(
    source: Source, rows: Index, codes: Index, weights: Array, origin: Array, n_classes: int, progress: Progress
) -> WeightedSums:
    """Return the sums of `rows` `[n]` of a source, x − origin, of class `codes` `[n]` with `weights` `[n]`.

    Rows are read on threads, and added up in their order on this one, so that the sums are the same for any of them.
    """
    chosen, sums = LabelledRows.of(rows), WeightedSums(source.d, n_classes)
    chunks = (chunk for chunk in source.chunks() if chosen.touch(chunk.start, chunk.n_rows))

    def read(chunk: Chunk) -> list[tuple[Array, Index]]:
        found = (chosen.within(batch) for batch in chunk.batches(sums.best_rows(source.d)))
        return [(x.astype(np.float64) - origin, as_index(index)) for x, index in found]

    with progress.stage("covariances", len(rows)) as advance:
        for parts in ordered_map(read, chunks):
            for x, index in parts:
                z = LabelMatrix(codes[index].astype(np.int32)[:, None], weights[index][:, None], n_classes)
                sums.add(x, z)
                advance(len(x))
    return sums


def regression_weights(own: Array, others: Array) -> Array | None:
    """Return the weights a `[n + m]` of rows: Σ a y is what a regression of any y on (1, s, s²) says of the class.

    Parameters
    ----------
    own : `[n]` scores s of the rows of a class
    others : `[m]` of rows near it

    Returns
    -------
    weights with sum 1; None where the scores have fewer than three values
    """
    s = np.concatenate([own, others])
    spread = s.std()
    if len(np.unique(s)) < 3:
        return None
    phi = np.vander((s - s.mean()) / spread, 3)
    q, _ = np.linalg.qr(phi)
    a: Array = q @ q[: len(own)].mean(axis=0)
    return a
