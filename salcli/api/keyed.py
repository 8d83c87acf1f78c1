"""`erase_keyed_vectors`: gensim's `KeyedVectors`, erased. gensim itself is not imported."""

import copy
from typing import Any

import numpy as np

from salcli.api.arrays import erase
from salcli.errors import UsageError


def erase_keyed_vectors(kv: Any, eraser: Any, *, in_place: bool = False) -> Any:
    """Return gensim's `KeyedVectors` with every vector erased, and its norms computed anew.

    Parameters
    ----------
    kv : `gensim.models.KeyedVectors`
    eraser : a fitted estimator, or an eraser as `load_eraser` returns it
    in_place : change `kv` itself and return it; default: a copy, which shares nothing with it

    Raises
    ------
    UsageError : a model instead of its vectors (`model.wv`), or vectors of fastText, which makes those of unknown words
        from parts of words that would not be erased
    ValueError : vectors of another width than the eraser takes

    Examples
    --------
    >>> import numpy as np
    >>> import salcli
    >>> from gensim.models import KeyedVectors
    >>> rng = np.random.default_rng(0)
    >>> kv = KeyedVectors(5)
    >>> gender = rng.permutation(["f", "m"] * 50)
    >>> vectors = rng.normal(size=(100, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> kv.add_vectors([f"word{i}" for i in range(100)], vectors)
    >>> sal = salcli.SAL().fit(kv.vectors, guarded=gender)
    >>> erased = salcli.erase_keyed_vectors(kv, sal)
    >>> bool(np.allclose(erased.vectors @ sal.eraser_.left, 0, atol=1e-5))
    True
    """
    if not hasattr(kv, "key_to_index") or not hasattr(kv, "fill_norms"):
        hint = ": give its vectors, `model.wv`" if hasattr(kv, "wv") else ""
        raise UsageError(f"expected KeyedVectors of gensim, not {type(kv).__name__}{hint}")
    if getattr(kv, "vectors_ngrams", None) is not None:
        raise UsageError(
            "these vectors of fastText make those of unknown words from n-grams, which would not be erased: copy the "
            "known words to plain KeyedVectors first (add_vectors(kv.index_to_key, kv.vectors))"
        )
    rows = np.ascontiguousarray(kv.vectors)
    found = eraser.transform(rows) if hasattr(eraser, "transform") else erase(eraser.to_features(), rows, 1.0)
    if not in_place:
        plain = copy.copy(kv)
        plain.vectors = None  # so that they are not copied only to be replaced
        kv = copy.deepcopy(plain)
    kv.vectors = np.asarray(found)
    kv.vector_size = kv.vectors.shape[1]
    kv.fill_norms(force=True)
    return kv
