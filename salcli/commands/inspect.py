"""`inspect`: the content of an embedding file (with labels and a similarity set), or of an artifact.

Modules that only some files need are imported where they are used, so that the command starts quickly.
"""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from salcli.data.embeddings import Embeddings
from salcli.data.labels import GuardedLabels, as_index
from salcli.data.source import Chunk, Source
from salcli.errors import RangeError, SalcliWarning, UsageError, warn
from salcli.formats.keys import KeyCensus, is_utf8
from salcli.formats.local_urls import takes_paths
from salcli.formats.npz_archive import is_artifact, is_moments
from salcli.formats.registry import named, opened_source
from salcli.options import InspectOptions, LabelOptions, ReadOptions
from salcli.streaming.engine import ordered_map

if TYPE_CHECKING:
    from salcli.erasers.linear import LinearEraser
    from salcli.formats.gold_sets import SimilaritySet

SCHEMA = "salcli.inspect/1"
PROJECTION_ROWS = 256  # of a matrix, in memory at once


@takes_paths
def inspect(path: str, options: InspectOptions) -> dict[str, Any]:
    """Return a description of the file at `path`, as the JSON of `salcli.inspect/1`.

    Parameters
    ----------
    path : embeddings or an artifact
    options : what else is described, and a file for the matrix of an eraser

    Raises
    ------
    UsageError : options that do not suit the file
    FormatError : a file is damaged
    OutputError : the matrix cannot be written
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if path != "-" and is_moments(path):
            found = _inspect_moments(path, options)
        elif path != "-" and is_artifact(path):
            found = _inspect_artifact(path, options)
        else:
            found = _inspect_source(path, options)
    for warning in caught:
        warnings.warn(warning.message, warning.category, stacklevel=2)
    return {
        "schema": SCHEMA,
        **found,
        "warnings": [str(w.message) for w in caught if issubclass(w.category, SalcliWarning)],
    }


def _inspect_artifact(path: str, options: InspectOptions) -> dict[str, Any]:
    from salcli.erasers.artifact import read_artifact
    from salcli.erasers.linear import LinearEraser
    from salcli.formats import atomic
    from salcli.formats.artifact import FORMAT, FOUND

    if options.labels or options.similarity:
        raise UsageError(f"{path} is an eraser: `labels` and `similarity` describe embeddings")
    if options.read != ReadOptions():
        raise UsageError(f"{path} is an eraser: options for reading embeddings do not apply to it")
    if options.projection is not None:
        if atomic.is_stdout(options.projection):
            raise UsageError("`projection`: a matrix is binary and goes into a file, not to stdout: give its name")
        atomic.check_output(options.projection, [path])
    artifact = read_artifact(path)
    if options.projection is not None:
        if not isinstance(artifact.eraser, LinearEraser):
            where = "has a map for each class" if artifact.eraser.keeps_space else "erases in a kernel's feature space"
            raise UsageError(f"`projection`: {path} {where}, so it has no d×d matrix")
        write_projection(options.projection, artifact.eraser)
    header = artifact.header
    return {
        "path": path,
        "format": FORMAT,
        "method": header["method"],
        "k": header["k"],
        "d": header["d"],
        "rank": header["rank"],
        "k_rule": header["k_rule"],
        "is_centred": header["is_centred"],
        "parameters": header["parameters"],
        "singular_values": artifact.singular_values.tolist(),
        "classes": {
            a["name"]: None if a["classes"] is None else dict(zip(a["classes"], a["counts"], strict=True))
            for a in header["attributes"]
        },
        **{name: header[name] for name in ("kernel", "landmarks", *FOUND) if name in header},
        "n_bytes": artifact.n_bytes,
        "fit": {name: header[name] for name in ("rows", "inputs", "versions")},
    }


def _inspect_moments(path: str, options: InspectOptions) -> dict[str, Any]:
    from salcli.formats.moments import FORMAT, read_header, read_keys, read_sums

    if options != InspectOptions():
        raise UsageError(f"{path} holds moments, which have no rows: no option applies to it")
    header = read_header(path)
    read_sums(path, header)  # which checks them
    if header["rows"]["joined_by"] == "key":
        read_keys(path)
    return {"path": path, "format": FORMAT, **{name: header[name] for name in header if name != "schema"}}


def write_projection(path: str, eraser: "LinearEraser", block_rows: int = PROJECTION_ROWS) -> None:
    """Write the d × d matrix of an eraser as `.npy`, block by block, so that it need not fit into memory.

    Parameters
    ----------
    path : of the output
    eraser : with the matrix P (see `LinearEraser.projection`)
    block_rows : rows of a block

    Raises
    ------
    OutputError : it cannot be written
    """
    from salcli.formats import atomic
    from salcli.formats.npy import npy_header

    d = eraser.d
    atomic.require_disk_space(path, 8 * d * d, "the matrix")
    with atomic.replacing(path) as temporary, open(temporary, "wb") as handle:
        handle.write(npy_header((d, d), np.dtype(np.float64)))
        for start in range(0, d, block_rows):
            handle.write(eraser.projection(slice(start, start + block_rows)).data)  # numpy.save misses a full disk


def _inspect_source(path: str, options: InspectOptions) -> dict[str, Any]:
    if options.projection is not None:
        raise UsageError(f"`projection` writes the matrix of an eraser, and {path} is not one")
    similarity = None if options.similarity is None else _read_similarity(options.similarity)
    labels = None if options.labels is None else _read_labels(options.labels, options.label_options)
    exact = replace(options.read, text_dtype=np.dtype(np.float64))  # shown as in the file
    with opened_source(path, exact) as source:
        about = None if labels is None else _describe_labels(source, labels, options.head)
        look = _Look(source, options.head, set() if similarity is None else _spellings(similarity))
        for batch in ordered_map(Chunk.read, source.chunks()):
            look.at(batch)
        n_repeated = (
            look.census.warn(source.path, source.key_batches, source.place)
            if labels is None
            else len(look.census.repeated())
        )
        if look.n_zero:
            warn(f"{source.path}: {look.n_zero} zero rows, the first at {source.place(look.first_zero)}")
    found: dict[str, Any] = {
        "path": path,
        "format": source.format,
        "n": source.n,
        "d": source.d,
        "dtype": "float32" if named(source.format).is_text else str(source.dtype),
        "has_keys": source.has_keys,
        "duplicate_keys": n_repeated,
        "zero_rows": look.n_zero,
        "head": look.head,
    }
    if len(source.shards) > 1:
        found["shards"] = {shard.reader.path: shard.reader.n for shard in source.shards}
    if about is not None:
        found["labels"] = about
    if similarity is not None:
        found["similarity"] = _score(similarity, look)
    return found


def _read_similarity(name: str) -> "SimilaritySet":
    from salcli.formats.gold_sets import read_similarity

    return read_similarity(name)


def _read_labels(path: str, options: LabelOptions) -> GuardedLabels:
    from salcli.formats.label_table import read_labels

    return read_labels(path, options)


class _Look:
    """One pass over all rows."""

    def __init__(self, source: Source, n_head: int, wanted: set[str]) -> None:
        self._path, self._place = source.path, source.place
        self.census, self.head, self.n_zero, self.first_zero = KeyCensus(), [], 0, -1  # type: ignore[var-annotated]
        self.wanted, self.vectors, self._n_head = wanted, {}, n_head  # type: ignore[var-annotated]

    def at(self, batch: Embeddings) -> None:
        """Add the next rows."""
        self.census.add(batch.keys or ())
        for i in range(min(len(batch), self._n_head - len(self.head))):
            self.head.append({**shown_key(batch, i), "vector": self._numbers(batch, i)})
        zero = np.flatnonzero(~batch.vectors.any(axis=1))
        if len(zero) and not self.n_zero:
            self.first_zero = int(batch.rows[zero[0]])
        self.n_zero += len(zero)
        if self.wanted:
            for i, key in enumerate(batch.keys or ()):
                if key in self.wanted and key not in self.vectors:
                    self.vectors[key] = np.array(batch.vectors[i])

    def _numbers(self, batch: Embeddings, i: int) -> list[float]:
        with np.errstate(over="ignore"):
            exact = batch.vectors[i].astype(np.float64)
        if not np.isfinite(exact).all():
            row = self._place(int(batch.rows[i]))
            raise RangeError(f"{self._path}: {row}: {batch.vectors.dtype} holds a number that float64 does not")
        numbers: list[float] = exact.tolist()
        return numbers


def shown_key(batch: Embeddings, i: int) -> dict[str, Any]:
    """Return the key of row `i` of `batch` (its number if there are no keys), and its bytes if they are not UTF-8."""
    if batch.keys is None:
        return {"key": int(batch.rows[i])}
    return _shown(batch.keys[i])


def _shown(key: str) -> dict[str, Any]:
    return {"key": key} if is_utf8(key) else {"key": key, "key_hex": key.encode("utf-8", "surrogateescape").hex()}


def _describe_labels(source: Source, labels: GuardedLabels, n_head: int) -> dict[str, Any]:
    from salcli.data.join import settle_index
    from salcli.streaming.passes import join_labels

    labels = settle_index(labels, source)
    join = join_labels(source, labels)
    matched = join.matched(labels)
    rows = as_index(join.rows_of(matched))
    chosen = labels.restricted_to(matched)
    chosen.require_variety()
    chosen.warn_of_single_rows()
    first = chosen.attributes[0]
    shown = np.argsort(rows, kind="stable")
    shown = shown[rows[shown] < n_head]
    about: dict[str, Any] = {
        "path": labels.path,
        "attribute": first.name,
        "classes": first.counts(),
        "n_labelled": len(matched),
        "unmatched_labels": len(join.unmatched()),
        "unlabelled_rows": source.n - len(matched),
        "head": [
            {
                **(_shown(chosen.keys[i]) if chosen.keys is not None else {"key": int(rows[i])}),
                "label": first.classes[first.values[i]] if first.classes is not None else float(first.values[i]),
            }
            for i in shown.tolist()
        ],
    }
    if len(chosen.attributes) > 1:
        about["attributes"] = {a.name: a.counts() for a in chosen.attributes}
    if labels.splits is not None:
        about["splits"] = {name: labels.splits.count(name) for name in sorted(set(labels.splits))}
    return about


def _spellings(gold: "SimilaritySet") -> set[str]:
    from salcli.evaluation.word_pairs import spellings

    return spellings(gold.pairs)


def _score(gold: "SimilaritySet", look: _Look) -> dict[str, Any]:
    from salcli.evaluation.json_fields import to_json
    from salcli.evaluation.word_pairs import similarity_score

    found: dict[str, Any] = to_json(similarity_score(gold.name, gold.pairs, gold.scores, look.vectors))
    return found
