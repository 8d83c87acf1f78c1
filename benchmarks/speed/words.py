"""Text and binary word vectors against gensim: the same numbers, bit for bit, or the run stops."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gensim.models import KeyedVectors
from numpy.typing import NDArray

from benchmarks.speed import files
from benchmarks.speed.bench import Bench
from benchmarks.speed.ours import load, write_text
from benchmarks.speed.results import Row
from benchmarks.speed.timing import Kept, Work

WORDS, LEAST_WORDS, D = 200_000, 2_000, 300
TEXT_TARGET, BINARY_TARGET = 10.0, 4.0
SPACED = "word with spaces "
PLAIN, HEADERLESS = "load text", "load text, no header"
SOME, ALL = "load text, spaces in one word of a hundred", "load text, spaces in all words"
EVERY = {PLAIN: 0, HEADERLESS: 0, SOME: 100, ALL: 1}  # which words are given spaces
SHARE = 10  # of the rows, where ours is slow
NOTES = {
    PLAIN: "",
    HEADERLESS: "; gensim reads the plain file",
    SOME: "; gensim reads the plain file",
    ALL: "; gensim reads the plain file; by bytes a second",
}


def rows(bench: Bench) -> Iterator[Row]:
    """Measure writing first: gensim's file is then what both load."""
    n = bench.sized(WORDS, LEAST_WORDS)
    size = files.size_of(n, D)
    folder = bench.folder
    binary, text, copy = files.write_binary(folder / "x.bin", n, D), folder / "x.txt", folder / "copy.txt"
    keyed = KeyedVectors.load_word2vec_format(str(binary), binary=True)
    works: dict[str, Work] = {
        "gensim": partial(keyed.save_word2vec_format, str(text)),
        "ours": partial(write_text, binary, copy),
    }
    seconds = bench.timed(works)
    _require_same(load(copy), keyed.index_to_key, keyed.vectors)
    yield Row.rates(
        "write text", "gensim save_word2vec_format", seconds["ours"], seconds["gensim"],
        copy.stat().st_size, text.stat().st_size, section="words", size=size,
        target=TEXT_TARGET, bounds=("spell float32 as text", "write and fsync"),
        note="ours reads the rows from a binary file on the way and syncs its output; reads back bit for bit",
    )  # fmt: skip
    copy.unlink()
    yield from _texts(bench, keyed, files.settle(text))
    yield from _binary(bench, binary, size)


def _texts(bench: Bench, keyed: Any, text: Path) -> Iterator[Row]:
    paths = {name: text if name == PLAIN else bench.folder / f"text{i}.txt" for i, name in enumerate(EVERY)}
    words, n_bytes = keyed.index_to_key, text.stat().st_size
    n_rows = {name: len(words) // (SHARE if name == ALL else 1) for name in EVERY}
    for name, path in paths.items():
        if name != PLAIN:
            _write_variant(text, path, EVERY[name], n_rows[name], has_header=name != HEADERLESS)
    ours = {name: Kept(partial(load, path)) for name, path in paths.items()}
    theirs = Kept(partial(_gensim, text, binary=False))
    seconds = bench.timed({"gensim": theirs, **ours})
    _require_same(theirs.result, words, keyed.vectors)
    for name, path in paths.items():
        n = n_rows[name]
        expected = [_spaced(i, word, EVERY[name]) for i, word in enumerate(words[:n])]
        _require_same(ours[name].result, expected, keyed.vectors[:n])
        yield Row.rates(
            name, "gensim load_word2vec_format", seconds[name], seconds["gensim"],
            path.stat().st_size, n_bytes, section="words", size=files.size_of(n, D),
            target=TEXT_TARGET, bounds=("parse text",), note=f"same float32, bit for bit{NOTES[name]}",
        )  # fmt: skip
        path.unlink()


def _write_variant(text: Path, target: Path, every: int, n_rows: int, *, has_header: bool) -> None:
    with text.open(encoding="utf-8", newline="\n") as lines, target.open("w", encoding="utf-8", newline="\n") as out:
        next(lines)
        if has_header:
            out.write(f"{n_rows} {D}\n")
        out.writelines(_spaced(i, line, every) for i, line in enumerate(islice(lines, n_rows)))
    files.settle(target)


def _spaced(i: int, word: str, every: int) -> str:
    return SPACED + word if every and i % every == 0 else word


def _binary(bench: Bench, binary: Path, size: str) -> Iterator[Row]:
    theirs, ours = Kept(partial(_gensim, binary, binary=True)), Kept(partial(load, binary))
    seconds = bench.timed({"gensim": theirs, "ours": ours})
    _require_same(ours.result, *theirs.result)
    yield Row.rates(
        "load word2vec binary", "gensim load_word2vec_format", seconds["ours"], seconds["gensim"],
        binary.stat().st_size, section="words", size=size, target=BINARY_TARGET,
        bounds=("copy into a fresh array (page faults)",), note="same float32, bit for bit",
    )  # fmt: skip
    binary.unlink()


def _gensim(path: Path, *, binary: bool) -> tuple[list[str], NDArray[Any]]:
    keyed = KeyedVectors.load_word2vec_format(str(path), binary=binary)
    return keyed.index_to_key, keyed.vectors


def _require_same(loaded: tuple[list[str], NDArray[Any]], words: list[str], vectors: NDArray[Any]) -> None:
    keys, found = loaded
    if keys != list(words) or found.dtype != vectors.dtype or not np.array_equal(found.view("u4"), vectors.view("u4")):
        raise AssertionError("salcli and gensim read different words or numbers from the same file")
