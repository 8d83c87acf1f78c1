"""Checks that an HDF5 dataset is complete and fits into bounded memory; h5py's errors as one line."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py

from salcli.errors import FormatError, first_line

# What h5py raises for a damaged file, depending on which of its layers meets the damage.
FAULTS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError, AttributeError)
MAX_CHUNK = 128 << 20  # a packed chunk is unpacked whole


def address_of(item: Any) -> Any:
    """Return where `item`, an object of h5py, is in its file: the same for all its names."""
    return h5py.h5o.get_info(item.id).addr


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Raise errors of h5py in the block as one-line errors that begin with `where`.

    Raises
    ------
    FormatError : the file is damaged
    OSError : the disk, or a quota, is full
    """
    try:
        yield
    except FAULTS as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise  # a full disk is not damage
        raise FormatError(f"{where}: damaged HDF5 file ({first_line(error)})") from error


def require_readable(where: str, dataset: h5py.Dataset, file_size: int) -> None:
    """Check that a dataset is in this file, is complete, and fits into memory.

    Parameters
    ----------
    where : names file and dataset
    dataset : of one or two dimensions
    file_size : bytes of the file it lies in

    Raises
    ------
    FormatError : it is not
    """
    require_inside(where, dataset)
    with damage(where):
        _require_filters(where, dataset)
        in_file = dataset.id.get_type().get_size()  # h5py reads bfloat16 as float32
        stored, expected = dataset.id.get_storage_size(), dataset.size * in_file
        if stored > file_size:
            raise FormatError(f"{where} is {stored} bytes in a file of {file_size}: truncated or damaged")
        if dataset.chunks is None:
            if stored < expected:
                raise FormatError(f"{where} announces {expected} bytes, and {stored} were ever written")
            return
        _require_chunks(where, dataset)


def require_inside(where: str, dataset: h5py.Dataset) -> None:
    """Check that the data of a dataset is in this file, before anything that would open others.

    Parameters
    ----------
    where : names file and dataset
    dataset : to check

    Raises
    ------
    FormatError : it is a view, or its data is in another file
    """
    with damage(where):
        if dataset.is_virtual:
            raise FormatError(
                f"{where} is virtual, a view of other datasets or files, which are not followed: "
                "copy its rows into a plain dataset"
            )
        if dataset.external:
            raise FormatError(f"{where} keeps its data in another file, which is not followed")


def _require_filters(where: str, dataset: h5py.Dataset) -> None:
    plist = dataset.id.get_create_plist()
    for i in range(plist.get_nfilters()):
        code, _, _, name = plist.get_filter(i)
        if not h5py.h5z.filter_avail(code):
            label = name.decode("utf-8", "replace") if name else "unnamed"
            raise FormatError(
                f"{where} needs HDF5 filter {code} ({label}), which is not installed: try `pip install hdf5plugin`"
            )


def _require_chunks(where: str, dataset: h5py.Dataset) -> None:
    expected, size = 1, dataset.dtype.itemsize
    for length, step in zip(dataset.shape, dataset.chunks, strict=True):
        expected, size = expected * -(-length // step), size * step
    found = dataset.id.get_num_chunks()
    if found < expected:
        raise FormatError(f"{where} has {expected} chunks, of which {found} were ever written")
    if is_packed(dataset) and size > MAX_CHUNK:
        raise FormatError(
            f"{where} has chunks of {size >> 20} MiB, and at most {MAX_CHUNK >> 20} MiB are unpacked at once: "
            f"repack it (h5repack -l {dataset.name}:CHUNK=…)"
        )


def is_packed(dataset: h5py.Dataset) -> bool:
    """Return whether chunks of `dataset` pass through filters, so that only whole ones can be read."""
    return dataset.chunks is not None and dataset.id.get_create_plist().get_nfilters() > 0


def describe(name: str, dataset: Any) -> str:
    """Return a dataset's name, type and shape as text; some types have no name in numpy.

    Parameters
    ----------
    name : of the dataset
    dataset : an object of h5py
    """
    try:
        if dataset.is_virtual:
            return f"{name} (virtual)"
        return f"{name} {dataset.dtype} {dataset.shape}"[:120]
    except FAULTS:
        return f"{name} (of a type that numpy does not have)"
