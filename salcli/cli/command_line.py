"""The command line, as a report records it."""

import shlex
from typing import Any

from salcli.evaluation.provenance import OF_FILES
from salcli.formats.files import file_name

WITHOUT_EFFECT = ("json", "quiet", "batch_rows", "reports", "report_format")


def command_line(context: Any) -> str:
    """Return the command with the options that were set: files without folders, and without what changes no figure.

    Parameters
    ----------
    context : of typer, for the command that runs
    """
    parts = ["salcli", str(context.info_name)]
    for param in context.command.params:
        value = context.params.get(param.name)
        source = context.get_parameter_source(param.name)
        if source is None or "DEFAULT" in source.name or param.name in WITHOUT_EFFECT or value is None:
            continue
        if param.param_type_name == "argument":
            parts.append(file_name(str(value)))
        elif isinstance(value, bool):
            parts.append(max((param.opts if value else param.secondary_opts), key=len))
        else:
            for one in value if isinstance(value, (list, tuple)) else (value,):
                text = str(one)
                if param.name in (*OF_FILES, "eraser"):
                    is_list = str(param.metavar).endswith(",…")
                    text = ",".join(map(file_name, text.split(","))) if is_list else file_name(text)
                parts += [max(param.opts, key=len), text]
    return " ".join(map(shlex.quote, parts))
