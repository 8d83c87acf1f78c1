"""Two consoles (results on stdout, messages on stderr), progress, and records as tables or JSON."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from salcli.cli.fitted import found_fields, rule_of_k
from salcli.cli.options import in_flags
from salcli.errors import SalcliWarning
from salcli.evaluation.text import visible as plain

if TYPE_CHECKING:  # importing rich takes tens of milliseconds, which quiet commands save
    from rich.console import Console

MAX_SHOWN = 2_000
MAX_KEY = 80
LEAST_VALUE = 20  # columns of a value on a very narrow terminal


def messages() -> "Console":
    """Return the console for progress, warnings and errors."""
    return _console(stderr=True, soft_wrap=True)


def results() -> "Console":
    """Return the console for results; in a pipe, long lines are not broken."""
    return _console(width=None if sys.stdout.isatty() else 200)


def _console(**options: Any) -> "Console":
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> NoReturn:
            """Raise BrokenPipeError, which `ReportingGroup` handles (rich would exit with 1, a failed gate)."""
            raise BrokenPipeError

    return PipeConsole(highlight=False, markup=False, emoji=False, **options)


def show_warnings() -> None:
    """Show salcli's warnings as one line each on stderr, each message once: files may be read several times."""
    usual, shown = warnings.showwarning, set[str]()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, SalcliWarning):
            if str(message) not in shown:
                shown.add(str(message))
                _print_message("warning:", "yellow", in_flags(str(message)))
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.simplefilter("always", SalcliWarning)
    warnings.showwarning = show


def show_error(message: str) -> None:
    """Print the error `message` as one line on stderr."""
    _print_message("error:", "bold red", message)


def _print_message(kind: str, style: str, message: str) -> None:
    """Print one line of at most `MAX_SHOWN` characters: strings quoted from files may be of any length."""
    from rich.text import Text

    text = plain(message)
    text = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 200]}…{text[-199:]}"
    messages().print(Text.assemble((kind, style), " ", text))


def print_json(record: dict[str, Any]) -> None:
    """Print `record` as one JSON object: sorted keys, full-precision numbers, ASCII."""
    print(json.dumps(record, sort_keys=True, allow_nan=False))


class ConsoleProgress:
    """A bar on a terminal; one plain line per stage elsewhere; nothing when quiet."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Callable[[int], None]]:
        """Show a stage of work (see `Progress.stage`)."""
        if self._is_quiet:
            yield lambda _: None
        elif not sys.stderr.isatty():
            print(f"{name}: {total:,} {unit}", file=sys.stderr, flush=True)
            yield lambda _: None
        else:
            from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
            from rich.text import Text

            class Rate(ProgressColumn):
                """Units done, and units per second."""

                def render(self, task: Task) -> Text:
                    """Return the text for a state of the bar."""
                    return Text(rate_text(int(task.completed), total, unit, task.finished_speed or task.speed))

            columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn(), TextColumn("left"))
            with Progress(*columns, console=messages(), transient=True) as bar:
                task = bar.add_task(name, total=total)
                yield lambda n: bar.advance(task, n)

    def say(self, message: str) -> None:
        """Print the line `message`, unless quiet."""
        if not self._is_quiet:
            messages().print(plain(message))


def rate_text(done: int, total: int, unit: str, speed: float | None) -> str:
    """Return the state of a stage as text: "1,200,000 of 2,000,000 rows, 350,000 rows/s".

    Parameters
    ----------
    done, total : numbers of units
    unit : their name
    speed : units per second; None: not shown
    """
    rate = "" if not speed else f", {speed:,.0f} {unit}/s" if speed >= 10 else f", {speed:.2g} {unit}/s"
    return f"{done:,} of {total:,} {unit}{rate}"


def print_fields(fields: dict[str, Any]) -> None:
    """Print names and values of `fields`, one a line, aligned; long values are wrapped between words."""
    from rich.cells import cell_len
    from rich.text import Text

    from salcli.render.layout import wrapped

    console = results()
    names = [plain(name) for name in fields]
    indent = max(map(cell_len, names), default=0) + 1
    for name, value in zip(names, fields.values(), strict=True):
        first, *rest = wrapped(plain(str(value)), max(console.width - indent, LEAST_VALUE))
        blanks = " " * (indent - cell_len(name)) if first else ""
        console.print(Text.assemble((name, "bold"), blanks, first), soft_wrap=True)
        for line in rest:
            console.print(Text(" " * indent + line), soft_wrap=True)


def show_fit(
    output: str,
    header: dict[str, Any],
    singular_values: list[float],
    n_bytes: int,
    *,
    is_json: bool,
    is_quiet: bool,
) -> None:
    """Print the summary of a fit, as JSON or as a table.

    Parameters
    ----------
    output : path of the artifact
    header : of the artifact
    singular_values : in descending order
    n_bytes : size of the artifact
    is_json : print one JSON object instead of a table
    is_quiet : print no table
    """
    if is_json:
        about = {"schema": "salcli.fit/1", "output": output, "n_bytes": n_bytes, "singular_values": singular_values}
        print_json({**header, **about})
    elif not is_quiet:
        print_fit(output, {**header, "n_bytes": n_bytes}, singular_values)


def print_fit(output: str, header: dict[str, Any], singular_values: list[float]) -> None:
    """Print the summary of a fit as a table.

    Parameters
    ----------
    output : path of the artifact
    header : of the artifact, with its size `n_bytes`
    singular_values : in descending order
    """
    how = rule_of_k(header["k_rule"])
    chosen = header["parameters"]
    kept = ", mean kept" if chosen.get("keep_mean") and not chosen.get("unit") else ""
    fields = {
        "eraser": output,
        "method": f"{header['method']}, {'centred' if header['is_centred'] else 'not centred'}{kept}",
        **_kernel_fields(header),
        **found_fields(header),
        "removes": f"{header['k']} of {_n_dimensions(header)} dimensions ({how}; rank {header['rank']})",
        "singular values": _spectrum(singular_values, header["rank"]),
        "fitted rows": f"{header['rows']['n_fitted']:,}",
    }
    for attribute in header["attributes"]:
        fields[f"attribute {attribute['name']}"] = _counts(attribute)
    print_fields(fields)


def _n_dimensions(header: dict[str, Any]) -> str:
    if "kernel" not in header:
        return str(header["d"])
    return f"the kernel's {header['landmarks'].get('n_features', '')}".rstrip()


def _kernel_fields(header: dict[str, Any]) -> dict[str, str]:
    """Return the kernel, its landmarks and the size of the eraser, which contains the landmark rows."""
    if "kernel" not in header:
        return {}
    kernel, landmarks = header["kernel"], header["landmarks"]
    exact = " (all fitted rows, by inner products)" if landmarks["rule"] == "all" else ""
    values = ", ".join(f"{name} {value:g}" for name, value in kernel.items() if name != "name")
    return {
        "kernel": f"{kernel['name']}{values and ', ' + values}",
        "landmarks": f"{landmarks['n']:,} rows of {header['d']} dimensions{exact}",
        "size": f"{header['n_bytes'] / 1e6:.3g} MB, training vectors included",
    }


def _quoted(key: str | int) -> str:
    """Return a key in quotes, at most `MAX_KEY` characters of it."""
    return repr(f"{key[: MAX_KEY - 1]}…" if isinstance(key, str) and len(key) > MAX_KEY else key)


def _spectrum(singular_values: list[float], rank: int) -> str:
    """Return the first `rank` singular values as text; the others are rounding noise."""
    shown = ", ".join(f"{s:.4g}" for s in singular_values[: min(rank, 8)]) + (" …" if rank > 8 else "")
    n_noise = len(singular_values) - rank
    return shown + (f" ({n_noise} more zero to rounding)" if n_noise else "")


def _counts(attribute: dict[str, Any]) -> str:
    if attribute["classes"] is None:
        return "numeric"
    pairs = [f"{name} {n:,}" for name, n in zip(attribute["classes"], attribute["counts"], strict=True)]
    return ", ".join(pairs[:12]) + (f" and {len(pairs) - 12:,} more" if len(pairs) > 12 else "")


def moments_fields(header: dict[str, Any]) -> dict[str, str]:
    """Return names and values of the `header` of moments."""
    shard, rows = header["inputs"]["embeddings"], header["rows"]
    exact = ", exact" if header["is_exact"] else ""
    centred = "centred" if header["is_centred"] else "not centred"
    fields = {
        "for": f"method {header['method']}, {centred}{exact}",
        "shard": f"{shard['name']}, {rows['n_shard']:,} rows of {header['d']} dimensions, {header['dtype']}",
        "added up": f"{rows['n_fitted']:,} rows, rounding at most {header['rounding']:.2g}",
    }
    task = [] if header["task"] is None else [header["task"]]
    for attribute in (*header["attributes"], *task):
        fields[f"{'task' if attribute in task else 'attribute'} {attribute['name']}"] = _counts(attribute)
    return fields


def print_inspection(found: dict[str, Any]) -> None:
    """Print the record `found` of an inspected embedding file, artifact or moments file."""
    if found["format"] == "salcli moments":
        print_fields({"file": found["path"], **moments_fields(found)})
        return
    if "singular_values" in found:
        header = {**found, "rows": found["fit"]["rows"]}
        header["attributes"] = [
            {"name": name, "classes": classes and list(classes), "counts": classes and list(classes.values())}
            for name, classes in found["classes"].items()
        ]
        print_fit(found["path"], header, found["singular_values"])
        return
    fields: dict[str, Any] = {
        "file": found["path"],
        "format": found["format"],
        **({"shards": f"{len(found['shards']):,}"} if "shards" in found else {}),
        "rows": f"{found['n']:,} of {found['d']} dimensions, {found['dtype']}",
        "keys": "none" if not found["has_keys"] else f"yes, {found['duplicate_keys']:,} repeated",
        "zero rows": f"{found['zero_rows']:,}",
    }
    for row in found["head"]:
        values = " ".join(f"{value:.4g}" for value in row["vector"][:6])
        fields[f"row {_quoted(row['key'])}"] = values + (" …" if len(row["vector"]) > 6 else "")
    if labels := found.get("labels"):
        counts = labels.get("attributes") or {labels["attribute"]: labels["classes"]}
        for name, classes in counts.items():
            fields[f"label {name}"] = ", ".join(f"{value} {n:,}" for value, n in classes.items()) or "numeric"
        unmatched = f"{labels['unmatched_labels']:,} labels unmatched"
        fields["labelled"] = f"{labels['n_labelled']:,} rows, {labels['unlabelled_rows']:,} without, {unmatched}"
    if similarity := found.get("similarity"):
        rho = "undefined" if similarity["spearman"] is None else f"{similarity['spearman']:.4f}"
        fields[f"similarity {similarity['set']}"] = (
            f"Spearman {rho} on {similarity['pairs_used']:,} of {similarity['pairs_total']:,} pairs "
            f"({similarity['oov_pairs']:,} out of vocabulary)"
        )
    print_fields(fields)
