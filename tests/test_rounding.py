"""What is served in float32 leaves little in the removed directions: the table of docs/how-to/export.md."""

import pytest

from benchmarks import rounding


@pytest.mark.filterwarnings("ignore")
def test_dense_matrices_leave_little_along_removed_directions_and_double_precision_next_to_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("safetensors")
    rounding.main()
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines())
    assert [row[0] for row in rows] == list(rounding.METHODS)
    for row in rows:
        found = dict(zip(head[1:], map(float, row[1:]), strict=True))
        assert max(found["onnx"], found["safetensors"]) < 0.05
        assert found.pop(rounding.LOW_RANK) > 2 * max(found["onnx"], found["safetensors"])
        assert max(value for name, value in found.items() if name not in ("onnx", "safetensors")) < 0.03
