"""safetensors: the matrix is read and written as the format's own description says; the header is not trusted."""

import json
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from salcli.errors import FormatError, ParameterError, SalcliWarning, UsageError
from salcli.formats import registry
from salcli.formats.beside import Beside
from salcli.formats.registry import open_beside, open_source
from salcli.options import ReadOptions

from .strategies import file_of

NAMES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "|i1": "I8", "<u2": "BF16"}
X = np.random.default_rng(5).standard_normal((30, 4)).astype(np.float32)


def built(tensors: dict[str, NDArray[Any]], metadata: Any = None, **changes: Any) -> bytes:
    """Build a file as the format is described; bfloat16 is given as uint16."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    end = 0
    for name, x in tensors.items():
        header[name] = {"dtype": NAMES[x.dtype.str], "shape": list(x.shape), "data_offsets": [end, end + x.nbytes]}
        end += x.nbytes
    for name, change in changes.items():
        header[name] = {**header.get(name, {}), **change}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(x.tobytes() for x in tensors.values())


def parsed(path: Path) -> tuple[dict[str, NDArray[Any]], Any]:
    """Read all tensors with json and numpy."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    metadata, kinds = header.pop("__metadata__", None), {kind: dtype for dtype, kind in NAMES.items()}
    body = data[8 + length :]
    spans = sorted(one["data_offsets"] for one in header.values())
    assert [a for a, _ in spans] == [0, *(b for _, b in spans[:-1])]
    assert spans[-1][1] == len(body)
    return {
        name: np.frombuffer(body[slice(*one["data_offsets"])], kinds[one["dtype"]]).reshape(one["shape"])
        for name, one in header.items()
    }, metadata


def read(path: Path, rows: int | None = None, **options: Any) -> NDArray[Any]:
    with closing(open_source(str(path), ReadOptions(**options))) as source:
        found = []
        for chunk in source.chunks():
            found += [np.array(batch.vectors) for batch in ([chunk.read()] if rows is None else chunk.batches(rows))]
        return np.concatenate(found)


def rewritten(
    path: Path, target: Path, dtype: Any = None, d: int | None = None, beside: Any = None, **options: Any
) -> None:
    read_options = ReadOptions(**options)
    with closing(open_source(str(path), read_options)) as source:
        name, kind = registry.output_format(str(target), source, None), np.dtype(dtype or source.dtype)
        with registry.create(
            str(target), source, d=d or source.d, dtype=kind, format_name=name, beside=beside or Beside()
        ) as writer:
            for chunk in source.chunks():
                writer.place(chunk.start, chunk.read().vectors[:, :d] * 2)  # as `apply` does where it can
            for other in beside.erased if beside else ():
                writer.begin(other)
                for chunk in open_beside(source, other, read_options).chunks():
                    batch = chunk.read()
                    writer.write(writer.encode(batch.with_vectors(batch.vectors + 1)))


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 5),
    st.sampled_from(["<f2", "<f4", "<f8", "bf16"]),
    st.integers(1, 70),
    st.integers(1, 9),
)
def test_rows_are_those_of_numpy(n: int, d: int, dtype: str, batch: int, rows: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, d)).astype("f4" if dtype == "bf16" else dtype)
    stored = x
    if dtype == "bf16":
        stored = (x.view(np.uint32) >> 16).astype("<u2")
        x = (stored.astype(np.uint32) << 16).view(np.float32)
    data = built({"a": np.arange(3), "m": stored, "z": np.ones(2, "<f4")})
    with file_of(data, "x.safetensors") as path:
        assert_array_equal(read(path, batch_rows=batch), x)
        assert_array_equal(read(path, rows, batch_rows=batch), x)


def test_other_tensors_and_metadata_are_kept(tmp_path: Path) -> None:
    old = {"w": np.arange(30.0), "m": X, "ids": np.arange(30), "pca": X.astype("<f2"), "é": X.view("<u2")}
    (tmp_path / "x.safetensors").write_bytes(built(old, {"format": "pt", "é": "\ud800"}))
    with pytest.warns(SalcliWarning, match="if they encode it: w, ids, pca, é"):
        rewritten(tmp_path / "x.safetensors", tmp_path / "y.safetensors", "f8", 3, dataset="m", batch_rows=7)
    new, metadata = parsed(tmp_path / "y.safetensors")
    assert [*new] == [*old]
    assert metadata == {"format": "pt", "é": "\ud800"}
    assert_array_equal(new.pop("m"), X[:, :3].astype("f8") * 2)
    for name, x in new.items():
        assert (x.dtype, x.tobytes()) == (old[name].dtype, old[name].tobytes())


def test_tensors_are_erased_too_or_left_out(tmp_path: Path) -> None:
    old = {"m": X, "w": np.arange(30.0), "pca": X.astype("<f2"), "ids": np.arange(30)}
    (tmp_path / "x.safetensors").write_bytes(built(old))
    beside = Beside(erased={"pca": np.dtype(np.float32)}, dropped=("w",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        rewritten(tmp_path / "x.safetensors", tmp_path / "y.safetensors", beside=beside, dataset="m")
        rewritten(tmp_path / "x.safetensors", tmp_path / "z.safetensors", beside=Beside(is_only=True), dataset="m")
    new, _ = parsed(tmp_path / "y.safetensors")
    assert [*new] == ["m", "pca", "ids"]
    assert_array_equal(new["m"], X * 2)
    assert_array_equal(new["pca"], X.astype("<f2") + np.float16(1))
    assert [*parsed(tmp_path / "z.safetensors")[0]] == ["m"]


def test_bfloat16_becomes_float32_and_says_so(tmp_path: Path) -> None:
    stored = (X.view(np.uint32) >> 16).astype("<u2")
    (tmp_path / "x.safetensors").write_bytes(built({"m": stored}))
    with pytest.warns(SalcliWarning, match="bfloat16 becomes float32"):
        rewritten(tmp_path / "x.safetensors", tmp_path / "y.safetensors")
    assert_array_equal(
        parsed(tmp_path / "y.safetensors")[0]["m"], (stored.astype(np.uint32) << 16).view(np.float32) * 2
    )


def test_other_formats_become_one_tensor_of_its_own_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.astype(">f4"))
    rewritten(tmp_path / "x.npy", tmp_path / "y.safetensors")
    assert_array_equal(parsed(tmp_path / "y.safetensors")[0]["embeddings"], X * 2)
    np.save(tmp_path / "x.npy", X.astype(np.longdouble))
    with pytest.raises(UsageError, match="give `dtype=float64`"):
        rewritten(tmp_path / "x.npy", tmp_path / "z.safetensors")
    assert not (tmp_path / "z.safetensors").exists()


VOCABULARIES: dict[str, Any] = {
    "by name": {"model": {"vocab": {"b": 1, "a": 0, "é": 2}}},
    "by place": {"model": {"vocab": [["a", -1.0], ["b", -2.0], ["é", -3]]}},
    "added": {
        "model": {"vocab": {"b": 1, "x": 0}},
        "added_tokens": [{"id": 2, "content": "é"}, {"id": 0, "content": "a"}],
    },
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_keys_are_the_tokens_of_the_tokenizer_beside_it(tmp_path: Path, vocabulary: Any) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(vocabulary), "utf-8")
    (tmp_path / "x.safetensors").write_bytes(built({"m": X[:3]}))
    with closing(open_source(str(tmp_path / "x.safetensors"), ReadOptions(batch_rows=2))) as source:
        assert [*source.kept_keys()] == ["a", "b", "é"]
        assert [key for chunk in source.chunks() for key in chunk.read().keys or ()] == ["a", "b", "é"]
    (tmp_path / "k.txt").write_text("x\ny\nz\n")
    for options, keys in (({"keyed": False}, []), ({"keys_file": str(tmp_path / "k.txt")}, ["x", "y", "z"])):
        with closing(open_source(str(tmp_path / "x.safetensors"), ReadOptions(**options))) as source:
            assert [*source.kept_keys()] == keys


def test_tokens_of_other_rows_are_no_keys(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(VOCABULARIES["by name"]), "utf-8")
    (tmp_path / "x.safetensors").write_bytes(built({"m": X}))
    with pytest.warns(SalcliWarning, match=r"3 tokens, but .* has 30 rows"):
        assert len(read(tmp_path / "x.safetensors")) == 30
    (tmp_path / "x.safetensors").write_bytes(built({"m": X[:2], "mapping": np.array([0, 1, 1])}))
    with pytest.warns(SalcliWarning, match="tensor mapping: tokens share rows by it"):
        read(tmp_path / "x.safetensors")
    for text in ("[]", "{", '{"model": {"vocab": {"a": "b"}}}', "[" * 100_000):
        (tmp_path / "tokenizer.json").write_text(text)
        (tmp_path / "x.safetensors").write_bytes(built({"m": X[:1]}))
        with pytest.raises(FormatError, match=r"tokenizer.json: not the tokens of .*x.safetensors"):
            read(tmp_path / "x.safetensors")


A = {"a": X}
BYTES = X.nbytes


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (built({"a": X, "b": X}), "several matrices, a, b: choose one with `dataset`"),
        (built({"a": np.ones(3)}), "no 2-D float tensor among a"),
        (built({}), "no 2-D float tensor among no tensors at all"),
        (built({"a": np.ones((3, 2), np.int8)}), "tensor a: I8 of shape [3, 2] has no scale here"),
        (built({"a": np.ones((0, 2), "<f4")}), "no rows to read"),
        (built(A)[:-1], "truncated: the tensors take 480 bytes, 479 follow the header"),
        (built(A) + b"\0", "too long: the tensors take 480 bytes, 481 follow the header"),
        (built(A)[:20], "truncated, or damaged"),
        ((1 << 31).to_bytes(8, "little") + built(A)[8:], "truncated, or damaged"),
        (built(A, a={"data_offsets": [4, BYTES + 4]}), "tensor a begins at byte 4, expected 0"),
        (built(A, b={"dtype": "I8", "shape": [16], "data_offsets": [8, 24]}), "tensor b begins at byte 8, expected"),
        (built(A, a={"data_offsets": [BYTES, 0]}), "in -480 bytes"),
        (built(A, a={"shape": [30, 5]}), "F32 of shape [30, 5] in 480 bytes"),
        (built(A, a={"shape": [-30, -4]}), "expected whole numbers"),
        (built(A, a={"shape": [True, 120]}), "expected whole numbers"),
        (built(A, a={"shape": [1 << 62, 1 << 62]}), "F32 of shape"),
        (built(A, a={"shape": [1 << 70, 0]}), "expected whole numbers"),
        (built(A, a={"shape": "30"}), "damaged safetensors header"),
        (built(A, a={"dtype": "F31"}), "dtype 'F31', expected one of"),
        (built(A, a={"dtype": ["F32"]}), "damaged safetensors header"),
        (built(A, a={"data_offsets": [0]}), "damaged safetensors header"),
        (built(A, {"x": 1}), "__metadata__ holds more than text"),
        (built(A, "text"), "damaged safetensors header"),
        ((24).to_bytes(8, "little") + b'{"a":{},"a":{}}         ', "a name occurs twice"),
        ((9).to_bytes(8, "little") + b'{"a": 1} ', "damaged safetensors header"),
        ((3).to_bytes(8, "little") + b'{"\xff', "damaged safetensors header"),
        ((100_001).to_bytes(8, "little") + b'{"a":' + b"[" * 99_996, "damaged safetensors header"),
    ],
)  # fmt: skip
def test_a_header_is_not_trusted(data: bytes, says: str) -> None:
    with file_of(data, "x.safetensors") as path:
        with pytest.raises(FormatError) as caught:
            read(path)
        assert says in str(caught.value)
        assert str(caught.value).startswith(str(path))


def test_names_are_checked(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(built({"a": X, "n": np.arange(2)}))
    for name, says in (
        ("b", "no tensor 'b'; it holds a, n"),
        ("n", r"I64 of shape \[2\], expected a matrix of floats"),
    ):
        with pytest.raises(FormatError, match=says):
            read(tmp_path / "x.safetensors", dataset=name)
    with pytest.raises(ParameterError, match="holds no text"):
        read(tmp_path / "x.safetensors", keys_dataset="n")


@settings(max_examples=150)
@given(st.integers(0, 150), st.integers(0, 255))
def test_a_damaged_file_is_refused_in_one_line_or_read(at: int, byte: int) -> None:
    good = built({"a": X[:3], "b": np.arange(2)}, {"k": "v"})
    data = good[:at] + bytes([byte]) + good[at + 1 :]
    with file_of(data, "x.safetensors") as path:
        text = None
        try:
            read(path, allow_nonfinite=True)
        except FormatError as error:
            text = str(error)
        assert text is None or (text.startswith(str(path)) and "\n" not in text)


def test_the_library_agrees(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    library.save_file({"m": X, "w": np.arange(3)}, tmp_path / "x.safetensors", {"a": "b"})
    rewritten(tmp_path / "x.safetensors", tmp_path / "y.safetensors")
    found = library.load_file(tmp_path / "y.safetensors")
    assert_array_equal(found["m"], X * 2)
    assert_array_equal(found["w"], np.arange(3))
