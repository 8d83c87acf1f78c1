"""`export` through the real command: what is served is what `apply` writes, and attackers read as little of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from .helpers import SAMPLE, run, succeed

pytestmark = pytest.mark.slow  # each test starts processes
BIOS = (SAMPLE / "bios-sample.npy", SAMPLE / "bios-sample.csv", "--attribute", "gender")


@pytest.mark.parametrize("options", [(), ("--method", "leace"), ("--keep-mean",), ("--unit",)])
def test_the_onnx_file_erases_real_rows_as_apply_does_and_leaves_as_little(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    succeed("fit", *BIOS, *options, "-o", tmp_path / "e.npz")
    succeed("apply", tmp_path / "e.npz", BIOS[0], "--dtype", "float32", "-o", tmp_path / "applied.npy")
    done = succeed("export", tmp_path / "e.npz", "-o", tmp_path / "e.onnx", "--double", "--json").json()
    assert done["schema"] == "salcli.export/1"
    assert (done["to"], done["d"], done["dtype"]) == ("onnx", 384, "float64")
    x = np.load(BIOS[0]).astype(np.float32)
    session = runtime.InferenceSession(str(tmp_path / "e.onnx"))
    (served,) = session.run(None, {"embedding": x})
    np.testing.assert_allclose(served, np.load(tmp_path / "applied.npy"), atol=2e-6)
    np.save(tmp_path / "served.npy", served)
    found = {}
    for name in ("applied", "served"):
        against = ("--against", tmp_path / f"{name}.npy", "--probes", "linear", "--as", "raw")
        against += ("--no-learning-curve", "--no-kept", "--json")
        probes = succeed("evaluate", *BIOS, *against).json()["probes"]
        found[name] = {p["adversary"]: p["accuracy"] for p in probes if p["stage"] == "after"}
    for adversary, accuracy in found["applied"].items():
        assert found["served"][adversary] == pytest.approx(accuracy, abs=0.01)


def test_what_a_file_cannot_compute_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    succeed("kfit", *BIOS, "--landmarks", "50", "-o", tmp_path / "k.npz")
    succeed("fit", *BIOS, "--method", "transport", "--shrinkage", "0.1", "--noise", "0.1", "-o", tmp_path / "n.npz")
    for eraser, output, code, message in (
        ("k.npz", "e.safetensors", 2, "writes kernel features"),
        ("n.npz", "e.onnx", 2, "adds noise that a secret and a hash of each row seed, which no such file computes: "),
        ("n.npz", "e.onnx", 2, "with --noise-key FILE"),
        ("none.npz", "e.onnx", 3, "none.npz"),
    ):
        done = run("export", tmp_path / eraser, "-o", tmp_path / output)
        assert done.code == code, done.err
        assert message in done.err
        assert not (tmp_path / output).exists()


def test_options_that_contradict_the_target_are_usage_errors(tmp_path: Path) -> None:
    succeed("fit", *BIOS, "-o", tmp_path / "e.npz")
    for options, message in (
        (("-o", tmp_path / "e.bin"), "no target has the suffix"),
        (("-o", tmp_path / "e", "--to", "faiss"), "expected onnx"),
        (("-o", "-", "--to", "onnx"), "goes into a file"),
        (("-o", tmp_path / "e.npz"), "is the input"),
        (("-o", tmp_path, "--to", "sentence-transformers", "--double"), "are float32"),
    ):
        done = run("export", tmp_path / "e.npz", *options)
        assert done.code == 2, done.err
        assert message in done.err


def test_a_model_that_has_the_eraser_embeds_and_erases(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    models, transformers = map(pytest.importorskip, ("sentence_transformers.models", "transformers"))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "he", "she", "is", "a", "nurse"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    base = str(tmp_path / "bert")
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(base)
    shape = {"hidden_size": 384, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **shape)).save_pretrained(base)
    modules = [models.Transformer(base), models.Pooling(384)]
    model = library.SentenceTransformer(modules=modules, device="cpu")
    texts = ["he is a nurse", "she is", "a nurse"]
    np.save(tmp_path / "x.npy", model.encode(texts))
    model.save(str(tmp_path / "m"))
    for options, n_modules in (((), 3), (("--unit",), 6)):
        succeed("fit", *BIOS, *options, "-o", tmp_path / "e.npz")
        succeed("export", tmp_path / "e.npz", "--to", "sentence-transformers", "-o", tmp_path / "m")
        served = library.SentenceTransformer(str(tmp_path / "m"), device="cpu").encode(texts)
        succeed("apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "x2.npy")
        np.testing.assert_allclose(served, np.load(tmp_path / "x2.npy"), atol=1e-5)
        (tmp_path / "x2.npy").replace(tmp_path / "x.npy")  # what the model now gives
        assert len(json.loads((tmp_path / "m" / "modules.json").read_text())) == n_modules
