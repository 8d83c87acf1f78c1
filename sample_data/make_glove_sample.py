"""Make the GloVe sample: 5,000 words of GloVe 6B 100d in three file formats.

Needs the packages numpy, h5py and gensim (for its copies of the SimLex-999 and WordSim-353 word pairs).

    python make_glove_sample.py FOLDER [--out FOLDER]

FOLDER holds vectors.npy (float32, one row per word, most frequent word first) and vocab.txt (one word per
line, same order), both taken from glove.6B.100d.txt (all of it or a part).  Words are chosen in this order:

1. the words of SimLex-999 and WordSim-353 that have a vector (lower-cased where only that form has one);
2. the 1,000 words nearest to (he - she) and the 1,000 farthest from it, by cosine, among the first 50,000;
3. he, she and common words of gender;
4. the most frequent words, up to 5,000 in all.

The sample keeps GloVe's order.  Nothing is random: the same input gives the same bytes.
"""

import argparse
from pathlib import Path

import h5py
import numpy as np
from gensim.test.utils import datapath
from numpy.typing import NDArray

SIZE = 5000
POOL = 50_000
EXTREMES = 1000
CHUNK_ROWS = 512
PAIR_FILES = ("simlex999.txt", "wordsim353.tsv")
GENDER_WORDS = (
    "he she him her his hers himself herself man woman men women boy girl boys girls male female "
    "father mother son daughter king queen husband wife brother sister"
)


def read_source(folder: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the words and the vectors of the source folder, in its order."""
    words = (folder / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    vectors = np.load(folder / "vectors.npy")
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(words):
        raise SystemExit(f"vectors.npy must be float32 with {len(words)} rows, one per word of vocab.txt")
    if len(set(words)) != len(words):
        raise SystemExit("vocab.txt holds a word twice")
    return words, vectors


def pair_words(index: dict[str, int]) -> set[int]:
    """Return the rows of the words of SimLex-999 and WordSim-353, as they stand or lower-cased."""
    rows: set[int] = set()
    for name in PAIR_FILES:
        for line in Path(datapath(name)).read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            for word in line.split("\t")[:2]:
                row = index.get(word, index.get(word.lower()))
                if row is not None:
                    rows.add(row)
    return rows


def cosines(vectors: NDArray[np.float32], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each row with the direction, computed in float64; NaN for a row of zeros."""
    rows = vectors.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1)
    norms[norms == 0] = np.nan
    return rows @ direction / (norms * np.linalg.norm(direction))


def choose(words: list[str], vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the rows of the sample, ascending."""
    index = {word: row for row, word in enumerate(words)}
    direction = vectors[index["he"]].astype(np.float64) - vectors[index["she"]].astype(np.float64)
    pool = cosines(vectors[:POOL], direction)
    ranked = np.argsort(pool, kind="stable")
    ranked = ranked[~np.isnan(pool[ranked])]
    she_end, he_end = set(ranked[:EXTREMES].tolist()), set(ranked[-EXTREMES:].tolist())

    chosen = pair_words(index) | she_end | he_end | {index[word] for word in GENDER_WORDS.split()}
    for row in range(len(words)):
        if len(chosen) >= SIZE:
            break
        chosen.add(row)
    rows = np.array(sorted(chosen), dtype=np.intp)
    if len(rows) != SIZE:
        raise SystemExit(f"{len(rows)} words chosen instead of {SIZE}")

    order = rows[np.argsort(cosines(vectors[rows], direction), kind="stable")]
    if set(order[:EXTREMES].tolist()) != she_end or set(order[-EXTREMES:].tolist()) != he_end:
        raise SystemExit("the ends of the sample are not the ends of the first words of the source")
    return rows


def write_word2vec(path: Path, words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write word2vec text, each number as the shortest decimal that reads back to the same float32."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n")
        for word, row in zip(words, vectors, strict=True):
            numbers = (np.format_float_positional(value, unique=True, trim="-") for value in row)
            file.write(f"{word} {' '.join(numbers)}\n")


def write_hdf5(path: Path, words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write the datasets `vectors` and `words`, without time stamps."""
    with h5py.File(path, "w", track_order=False) as file:
        file.create_dataset(
            "vectors",
            data=vectors,
            chunks=(CHUNK_ROWS, vectors.shape[1]),
            compression="gzip",
            compression_opts=9,
            shuffle=True,
            track_times=False,
        )
        strings = h5py.string_dtype("utf-8")
        file.create_dataset("words", data=words, dtype=strings, track_times=False)


def check(out: Path, words: list[str], vectors: NDArray[np.float32]) -> None:
    """Read the files back; stop unless all hold these words and, bit for bit, these values."""
    lines = (out / "glove-sample.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    fields = [line.split(" ") for line in lines[1:]]
    if lines[0] != f"{len(words)} {vectors.shape[1]}":
        raise SystemExit("glove-sample.txt: wrong header")
    with h5py.File(out / "glove-sample.h5", "r") as file:
        hdf5_words, hdf5_vectors = list(file["words"].asstr()[:]), file["vectors"][:]
    keys = (out / "glove-sample.keys.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = {
        "glove-sample.txt": (
            [row[0] for row in fields],
            np.array([[np.float32(number) for number in row[1:]] for row in fields], dtype=np.float32),
        ),
        "glove-sample.npy": (keys, np.load(out / "glove-sample.npy")),
        "glove-sample.h5": (hdf5_words, hdf5_vectors),
    }
    for name, (found_words, found_vectors) in found.items():
        if found_words != words:
            raise SystemExit(f"{name}: other words")
        same_form = found_vectors.dtype == np.float32 and found_vectors.shape == vectors.shape
        if not same_form or found_vectors.tobytes() != vectors.tobytes():
            raise SystemExit(f"{name}: other values")


def main() -> None:
    """Choose the words, write the files and check them."""
    parser = argparse.ArgumentParser(description="Make the GloVe sample files.")
    parser.add_argument("source", type=Path, help="folder with vectors.npy and vocab.txt of GloVe 6B 100d")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="where to write")
    args = parser.parse_args()

    all_words, all_vectors = read_source(args.source)
    rows = choose(all_words, all_vectors)
    words = [all_words[row] for row in rows]
    vectors = np.ascontiguousarray(all_vectors[rows])
    if any(len(word.split()) != 1 for word in words) or not np.isfinite(vectors).all():
        raise SystemExit("a chosen word has a space in it, or a chosen vector a number that is not finite")

    args.out.mkdir(parents=True, exist_ok=True)
    write_word2vec(args.out / "glove-sample.txt", words, vectors)
    np.save(args.out / "glove-sample.npy", vectors)
    keys = "".join(f"{word}\n" for word in words)
    (args.out / "glove-sample.keys.txt").write_text(keys, encoding="utf-8", newline="\n")
    write_hdf5(args.out / "glove-sample.h5", words, vectors)
    check(args.out, words, vectors)
    print(f"{len(words)} words, {vectors.shape[1]} dimensions; all files hold the same words and values")


if __name__ == "__main__":
    main()
