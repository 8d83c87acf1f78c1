"""Labels in a table: the columns of a Parquet or Arrow file that are no lists, as text, as a label CSV has them."""

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa

from salcli.errors import LabelError
from salcli.formats.arrow_columns import KEY_NAMES, damage, holds_keys, stored, texts
from salcli.formats.arrow_ipc import ArrowFile
from salcli.formats.csv_records import Batch
from salcli.formats.files import ByteFile
from salcli.formats.parquet import parquet_file
from salcli.formats.sniff import is_arrow
from salcli.formats.table_metadata import class_names
from salcli.options import LabelOptions

ROWS = 1 << 14  # read at once
ROLES = ("key", "split_column", "task", "groups")  # options that name one column each


class LabelFile:
    """The columns of a table that may be labels."""

    def __init__(self, file: ByteFile) -> None:
        """Read the schema.

        Raises
        ------
        FormatError : the file is damaged
        """
        self._path, self._file = file.name, file.plain()
        with damage(self._path):
            self._schema, self.n, self._read = _opened(self._file)
        self.names = [each.name for each in self._schema if not _is_nested(each.type)]
        """Of the columns that are neither lists nor structs, in order."""
        self.key_names = [
            name for name in KEY_NAMES if name in self.names and holds_keys(self._schema.field(name).type)
        ]
        """Of those that are named as keys, the first of which is taken."""
        self._class_names = class_names(self._schema)

    def require_flat(self, options: LabelOptions) -> None:
        """Check that no column that `options` name is a list or a struct.

        Raises
        ------
        LabelError : one is
        """
        named = {name: field for field in ("attributes", "numeric") for name in getattr(options, field)}
        named |= {name: field for field in ROLES if (name := getattr(options, field)) is not None}
        for each in self._schema:
            if each.name in named and each.name not in self.names:
                raise LabelError(
                    f"{self._path}: column {each.name!r} ({options.named_by(named[each.name])}) is "
                    f"{str(each.type)[:80]}, expected text, numbers or booleans"
                )

    def batches(self, wanted: Collection[int], advance: Callable[[int], None] | None = None) -> Iterator[Batch]:
        """Yield the rows, numbered from 0; columns that are not wanted are empty.

        Parameters
        ----------
        wanted : positions in `names`
        advance : called with how many bytes of the file each step has read, about

        Raises
        ------
        FormatError : the file is damaged
        LabelError : a number that stands for no class
        """
        first, columns = 0, sorted({self.names[i] for i in wanted})
        share = (self._file.size or 0) / max(1, self.n)
        batches = self._read(columns)
        while True:
            with damage(f"{self._path}: rows from {first}"):
                batch = next(batches, None)
            if batch is None:
                return
            numbers = range(first, first + len(batch))
            cells = [self._cells(batch, name, first) if i in wanted else () for i, name in enumerate(self.names)]
            yield Batch(numbers, cells)
            first = numbers.stop
            if advance is not None:
                advance(int(share * len(batch)))

    def _cells(self, batch: pa.RecordBatch, name: str, first: int) -> Any:
        column = batch.column(name)
        if name in self._class_names and pa.types.is_integer(column.type):
            return self._named(column.to_pylist(), name, first)
        with damage(f"{self._path}: column {name}"):
            return texts(column, lambda _: "")

    def _named(self, numbers: list[int | None], name: str, first: int) -> list[str]:
        """Return the names of classes; -1 is no label, as in `datasets`."""
        names = self._class_names[name]
        if len({*names}) < len(names):
            again = next(each for i, each in enumerate(names) if each in names[:i])
            raise LabelError(f"{self._path}: column {name!r}: two of its classes have one name, {again!r}")
        for i, number in enumerate(numbers):
            if number is not None and not -1 <= number < len(names):
                raise LabelError(
                    f"{self._path}: row {first + i}: {number} in column {name!r}, whose classes are 0…{len(names) - 1}"
                )
        return ["" if number is None or number < 0 else names[number] for number in numbers]


def _is_nested(kind: pa.DataType) -> bool:
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_nested(stored(values)))


Columns = Callable[[list[str]], Iterator[pa.RecordBatch]]


def _opened(file: ByteFile) -> tuple[pa.Schema, int, Columns]:
    """Return the schema of a table, its rows, and a function that yields some of its columns."""
    if is_arrow(file.head()):
        arrow = ArrowFile(file)

        def select(columns: list[str]) -> Iterator[pa.RecordBatch]:
            return itertools.chain.from_iterable(arrow.rows(i, columns, ROWS) for i in range(len(arrow.counts)))

        return arrow.schema, sum(arrow.counts), select
    table = parquet_file(file)

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = table.iter_batches(batch_size=ROWS, columns=columns, use_threads=False)
        return found

    return table.schema_arrow, table.metadata.num_rows, read
