"""Which files LABELS names: one, or one for each shard of the embeddings."""

from salcli.errors import FormatError, LabelError
from salcli.formats import shards

TABLES = dict.fromkeys((".parquet", ".pq"), "Parquet") | dict.fromkeys((".arrow", ".feather"), "Arrow")
RANKS: tuple[shards.Kinds, ...] = (dict.fromkeys((".csv", ".tsv"), "CSV"), TABLES, {".txt": "CSV"})
"""Of a folder, tables are labels where there is no CSV, and other text where there is neither."""


def label_files(path: str) -> list[str]:
    """Return the files of labels that `path` names: itself, or those of a folder or a glob in natural order.

    Raises
    ------
    LabelError : there are none, or several kinds in one folder
    """
    if not shards.is_several(path):
        return [path]
    try:
        return shards.shard_files(path, RANKS, "label tables")
    except FormatError as error:
        raise LabelError(str(error)) from error
