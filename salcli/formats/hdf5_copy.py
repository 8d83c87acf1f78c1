"""`Hdf5Copy`: a copy of all objects beside the matrix in another HDF5 file; links and references keep their targets."""

from collections.abc import Iterable, Iterator
from typing import Any

import h5py
import numpy as np

from salcli.errors import warn
from salcli.formats.hdf5_checks import FAULTS, address_of

SCALES, SCALED = "DIMENSION_LIST", "REFERENCE_LIST"  # attributes that h5py writes where scales are attached
REFERENCES_AT_ONCE = 1 << 16


class Hdf5Copy:
    """Copies all but some datasets. These are written in between; then links and references to them are written."""

    def __init__(
        self,
        path: str,
        source: h5py.File,
        target: h5py.File,
        skipped: set[str],
        dropped: Iterable[str] = (),
        *,
        references_at_once: int = REFERENCES_AT_ONCE,
    ) -> None:
        """Start a copy of all but some datasets, whatever else they are called.

        Parameters
        ----------
        path : of the source, for messages
        source, target : open files
        skipped : datasets that are written by the caller
        dropped : datasets and groups that are left out
        references_at_once : of a dataset, in memory
        """
        self._path, self._source, self._target, self._at_once = path, source, target, references_at_once
        self._places = {address_of(source[name]): name for name in skipped if name in source}
        self._dropped: set[Any] = set()
        for name in dropped:
            self._drop(source[name])
        self._others: list[tuple[str, str]] = []
        """(name, path) of each other name of a skipped dataset."""
        self._referring: list[tuple[Any, Any, str | None]] = []
        """Objects here and there that hold references: in an attribute, or (None) as a dataset's values."""
        self._scaled: list[tuple[Any, Any]] = []
        """Datasets here and there whose dimensions have scales (as in netCDF)."""

    def _drop(self, item: Any) -> None:
        self._dropped.add(address_of(item))
        if isinstance(item, h5py.Group):
            item.visititems(lambda _, each: self._dropped.add(address_of(each)))

    def groups(self) -> None:
        """Copy groups with all they hold; soft and external links stay links."""
        copied: dict[Any, str] = {address_of(self._source): "/"}

        def copy(group: h5py.Group, into: h5py.Group) -> None:
            self.attributes(group, into)
            for name in group:
                path = f"{into.name.rstrip('/')}/{name}"
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink):
                    into[name] = link
                    continue
                item = group[name]
                address = address_of(item)
                if address in self._dropped:
                    continue
                if address in self._places:
                    self._others.extend([(path, self._places[address])] if path != self._places[address] else [])
                elif address in copied:
                    into[name] = self._target[copied[address]]
                elif isinstance(item, h5py.Group):
                    copied[address] = path
                    copy(item, into.create_group(name))
                else:
                    copied[address] = path
                    self._copy_item(group, name, into)

        copy(self._source, self._target)

    def _copy_item(self, group: h5py.Group, name: str, into: h5py.Group) -> None:
        """Copy a dataset or a named type to the last bit, but for references, whose targets HDF5 would lose."""
        group.copy(name, into, name)
        for attribute in self._leading(group[name], into[name]):
            del into[name].attrs[attribute]
        if isinstance(group[name], h5py.Dataset) and _refers(group[name].dtype):
            self._referring.append((group[name], into[name], None))

    def attributes(self, source: Any, target: Any) -> None:
        """Copy the values of all attributes of `source`, a group or dataset, to `target`, references aside."""
        left_out = {*self._leading(source, target)}
        for name in source.attrs:
            is_scale = name == "CLASS" and np.array_equal(source.attrs[name], b"DIMENSION_SCALE")
            if name not in left_out and not is_scale:  # h5py writes that itself, once the scale is attached
                target.attrs.create(name, source.attrs[name], dtype=source.attrs.get_id(name).dtype)

    def _leading(self, source: Any, target: Any) -> Iterator[str]:
        """Yield the names of attributes that hold references, which are written later."""
        for name in source.attrs:
            dtype = source.attrs.get_id(name).dtype
            if name == SCALES and _are_scales(source):
                self._scaled.append((source, target))
            elif not _refers(dtype):
                continue
            elif name != SCALED or dtype.fields is None:  # else h5py writes it anew, as scales are attached
                self._referring.append((source, target, name))
            yield name

    def finish(self) -> None:
        """Write the other names of skipped datasets, so that these do not refer to the old data, and all references."""
        for other, path in self._others:
            self._target[other] = self._target[path]
        for source, target in self._scaled:
            for i, references in enumerate(source.attrs[SCALES]):
                for reference in references:
                    self._attach(source, target, i, reference)
        for source, target, name in self._referring:
            self._refer(source, target, name)

    def _refer(self, source: Any, target: Any, name: str | None) -> None:
        """Write the references that an attribute, or (None) a dataset, holds."""
        item = source if name is None else source.attrs.get_id(name)
        if item.shape is None:  # empty; of a dataset that is copied already
            if name is not None:
                target.attrs.create(name, source.attrs[name])
        elif h5py.check_ref_dtype(item.dtype) is not h5py.Reference:
            what = f"dataset {source.name}" if name is None else f"attribute {name!r} of {source.name}"
            warn(f"{self._path}: {what} holds references inside values or to parts of datasets, which are lost")
        elif name is not None:
            target.attrs.create(name, self._moved(source.attrs[name]), dtype=h5py.ref_dtype)
        else:
            for part in _parts(source, self._at_once):
                target[part] = self._moved(source[part])

    def _attach(self, source: Any, target: Any, dimension: int, reference: h5py.Reference) -> None:
        """Attach the scale that a reference points to, if it is as long as the dimension is now."""
        try:
            scale = self._target[self._source[reference].name]
            if source.shape[dimension] == target.shape[dimension] and isinstance(scale, h5py.Dataset):
                target.dims[dimension].attach_scale(scale)
                return
        except FAULTS:  # it had no target before
            pass
        warn(f"{self._path}: a scale of dimension {dimension} of {source.name} is not attached in the new file")

    def _moved(self, references: Any) -> Any:
        """Return references (one, or an array) to the same objects in the new file; null where there is none."""
        if isinstance(references, h5py.Reference):
            return self._moved_one(references)
        moved = np.empty(references.shape, h5py.ref_dtype)
        for at in np.ndindex(references.shape):
            moved[at] = self._moved_one(references[at])
        return moved

    def _moved_one(self, reference: h5py.Reference) -> h5py.Reference:
        try:
            name = self._source[reference].name if reference else None
            return self._target[name].ref if name in self._target else h5py.Reference()
        except FAULTS:  # it had no target before
            return h5py.Reference()


def _parts(dataset: h5py.Dataset, elements: int) -> Iterator[Any]:
    """Yield slices that cut a dataset into parts of about so many elements."""
    if not dataset.shape:
        yield ()
        return
    step = max(1, elements // max(1, int(np.prod(dataset.shape[1:]))))
    for start in range(0, dataset.shape[0], step):
        yield slice(start, start + step)


def _are_scales(source: Any) -> bool:
    """Return whether the attribute of that name is what h5py writes: a list of references for each dimension."""
    if not isinstance(source, h5py.Dataset) or source.shape is None:
        return False
    scales = source.attrs.get_id(SCALES)
    inner = h5py.check_vlen_dtype(scales.dtype)
    is_list = isinstance(inner, np.dtype) and h5py.check_ref_dtype(inner) is h5py.Reference
    return is_list and scales.shape == (source.ndim,)


def _refers(dtype: np.dtype[Any]) -> bool:
    """Return whether values of `dtype` hold references, be it deep inside."""
    if dtype.subdtype is not None:
        return _refers(dtype.subdtype[0])
    if dtype.fields is not None:
        return any(_refers(field[0]) for field in dtype.fields.values())
    inner = h5py.check_vlen_dtype(dtype)
    return h5py.check_ref_dtype(dtype) is not None or (isinstance(inner, np.dtype) and _refers(inner))
