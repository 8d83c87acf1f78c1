"""A folder of sentence-transformers: a `Dense` module is appended to the model, without torch."""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from salcli.errors import FormatError, OutputError, UsageError, warn
from salcli.formats import atomic
from salcli.formats.exports import DenseMap, Target
from salcli.formats.exports.safetensors import packed
from salcli.formats.urls import is_url

MODULES = "modules.json"
IDENTITY = "torch.nn.modules.linear.Identity"
PACKAGE = "sentence_transformers.models"
POOLING_MODES = "pooling_mode_"


def write(path: str, dense: DenseMap, is_double: bool) -> list[str]:  # noqa: ARG001 (the module is float32)
    """Append the map to a model as its last module, and `Normalize` modules around it for one that normalizes.

    The module's folder is written first; the model uses it once `modules.json` is replaced, in one step.

    Parameters
    ----------
    path : folder of the model
    dense : the map
    is_double : makes no difference

    Returns
    -------
    the files that were written

    Raises
    ------
    FormatError : the folder is no such model, or of another width
    UsageError : the eraser keeps a constant, and the model divides embeddings by their lengths
    OutputError : the folder has a module that the model does not use, or cannot be written
    """
    modules = _modules(path)
    _require_width(path, modules, dense.d)
    is_unit = _is_a(modules[-1], "Normalize")
    if any(_is_a(module, "Normalize") for module in modules) and not dense.normalizes:
        if dense.bias.any():
            raise UsageError(
                f"{path}: the model divides embeddings by their lengths, and this eraser keeps a constant in the "
                "directions that it removes, from which the attribute can then be read: fit with `unit`"
            )
        warn(
            f"{path}: the model's embeddings are of length 1, the erased ones are not: `fit unit=True` keeps the length"
        )
    added: list[tuple[str, dict[str, bytes]]] = [("Normalize", {})] if dense.normalizes and not is_unit else []
    added += [("Dense", _files(dense))]
    added += [("Normalize", {})] if dense.normalizes else []
    written = []
    for kind, files in added:
        n = len(modules)
        folder = f"{n}_{kind}"
        _write_folder(os.path.join(path, folder), files)
        written += [os.path.join(path, folder, name) for name in files]
        modules.append({"idx": n, "name": str(n), "path": folder, "type": f"{PACKAGE}.{kind}"})
    target = os.path.join(path, MODULES)
    with atomic.replacing(target) as temporary, open(temporary, "w", encoding="utf-8") as handle:
        json.dump(modules, handle, indent=2)
    return [*written, target]


def _files(dense: DenseMap) -> dict[str, bytes]:
    config = {"in_features": dense.d, "out_features": dense.d, "bias": True, "activation_function": IDENTITY}
    tensors = {"linear.weight": dense.weight.astype(np.float32), "linear.bias": dense.bias.astype(np.float32)}
    return {
        "config.json": json.dumps(config, indent=4).encode("ascii"),
        "model.safetensors": packed(tensors, {"format": "pt", **dense.metadata}),
    }


def _modules(path: str) -> list[dict[str, Any]]:
    if is_url(path):
        raise UsageError(f"{path}: a model is changed in a local folder: copy it here first, and upload it then")
    if not os.path.isdir(path):
        raise FormatError(f"{path}: is no folder, expected that of a sentence-transformers model")
    try:
        modules = _json(os.path.join(path, MODULES))
    except FileNotFoundError as error:
        raise FormatError(f"{path}: has no {MODULES}, expected the folder of a sentence-transformers model") from error
    wanted = ("path", "type")
    is_list = isinstance(modules, list) and modules and all(isinstance(each, dict) for each in modules)
    if not is_list or not all(isinstance(each.get(name), str) for each in modules for name in wanted):
        raise FormatError(f"{path}/{MODULES}: expected a list of modules, each with `path` and `type`")
    found: list[dict[str, Any]] = modules
    return found


def _json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as handle:
            return json.load(handle)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read: {error}") from error


def _is_a(module: dict[str, Any], kind: str) -> bool:
    return bool(module["type"].rpartition(".")[2] == kind)


def _require_width(path: str, modules: list[dict[str, Any]], d: int) -> None:
    for name, found in _widths(path, modules):
        if found != d:
            raise FormatError(f"{path}/{name}: the model's embeddings have {found} dimensions, the eraser takes {d}")
        return


def _widths(path: str, modules: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the file name and the width in the configuration of the last module that has one."""
    for module in reversed(modules):
        name = f"{module['path']}/config.json"
        try:
            config = _json(os.path.join(path, name))
        except FileNotFoundError:
            continue
        if not isinstance(config, dict):
            raise FormatError(f"{path}/{name}: expected an object")
        if _is_a(module, "Dense") and isinstance(config.get("out_features"), int):
            yield name, config["out_features"]
        width = config.get("word_embedding_dimension", config.get("embedding_dimension"))
        if _is_a(module, "Pooling") and isinstance(width, int):
            modes = sum(value is True for key, value in config.items() if key.startswith(POOLING_MODES))
            yield name, width * max(1, modes)


def _write_folder(path: str, files: dict[str, bytes]) -> None:
    """Write a folder of files by a temporary name, then rename it."""
    if os.path.exists(path):
        raise OutputError(f"{path}: exists, but {MODULES} does not name it: remove it")
    parent, name = os.path.split(path)
    try:
        temporary = os.path.join(parent, f".{name}.{os.getpid()}")
        os.mkdir(temporary)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        for each, data in files.items():
            with open(os.path.join(temporary, each), "wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
        os.rename(temporary, path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


TARGET = Target("sentence-transformers", (), write, is_folder=True)
