"""The options of every command, each written once: the command line is generated from the fields of these records.

One file a command; `record` turns a field into an option, `reading` and `labels` are options of several commands,
and `limits` the values that options of `evaluate` take. A field made by `option` is an option of the command line. Its
name is that of the Python face, its `Option` says how it is called and explained on the command line and which values
it takes. Messages below the command line name parameters as Python writes them, in backquotes (`` `keys_file=FILE` ``);
the command line shows the flag instead (`--keys FILE`).
"""

from salcli.options.apply import DTYPES, ApplyOptions
from salcli.options.cluster import ClusterOptions
from salcli.options.compare import CompareOptions
from salcli.options.evaluate import EvaluateOptions
from salcli.options.export import ExportOptions
from salcli.options.fit import DEFAULT_FIT_SPLIT, FitOptions, require_split
from salcli.options.inspect import InspectOptions
from salcli.options.label import LabelCommandOptions
from salcli.options.labels import LabelOptions
from salcli.options.limits import FORMS, RAW, WHITE_BOX, Limit, Sweep
from salcli.options.moments import MomentsOptions
from salcli.options.reading import (
    BLOCK_ELEMENTS,
    ReadOptions,
    block_rows,
)
from salcli.options.record import WITHOUT, Option, Record, option, options_of

__all__ = [
    "BLOCK_ELEMENTS",
    "DEFAULT_FIT_SPLIT",
    "DTYPES",
    "FORMS",
    "RAW",
    "WHITE_BOX",
    "WITHOUT",
    "ApplyOptions",
    "ClusterOptions",
    "CompareOptions",
    "EvaluateOptions",
    "ExportOptions",
    "FitOptions",
    "InspectOptions",
    "LabelCommandOptions",
    "LabelOptions",
    "Limit",
    "MomentsOptions",
    "Option",
    "ReadOptions",
    "Record",
    "Sweep",
    "block_rows",
    "option",
    "options_of",
    "require_split",
]
