"""Records whose fields are options: how a field is written on the command line, parsed and checked."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, cast, get_args, get_origin

from salcli.errors import ParameterError

WITHOUT = "without"
"""Key of the metadata of a field whose value is a record: names of options in it which the command does not have."""


@dataclass(frozen=True)
class Option:
    """How a field is written and explained on the command line, and which values it takes."""

    flags: tuple[str, ...]
    """Empty: `--field-name`."""
    help: str
    """One sentence, with the unit."""
    metavar: str | None = None
    off: str | None = None
    """The flag that sets a bool field to False."""
    choices: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)
    """Least and greatest value, both allowed; None: no bound."""
    parse: Callable[[str], Any] | None = None
    """Read the value from its text; raises ValueError with what was expected."""
    is_repeatable: bool = False
    """Each use of the flag adds a value to the tuple."""
    is_text: bool = False
    """Names something inside a file (a column, a word), so its bytes are read as UTF-8 in any locale."""

    def flags_of(self, name: str) -> tuple[str, ...]:
        """Return the flags of the field `name`, the one for messages first."""
        return self.flags or ("--" + name.replace("_", "-"),)

    @property
    def is_list(self) -> bool:
        """Whether it takes values with commas between, which add up where the flag is repeated."""
        return self.parse is not None and (self.metavar or "").endswith(",…")

    def read(self, name: str, text: Any) -> Any:
        """Return the value of a field from the command line.

        Parameters
        ----------
        name : of the field
        text : as the command line has it; a list of texts if the option may be repeated

        Raises
        ------
        ParameterError : the text cannot be read
        """
        if self.is_repeatable:
            return tuple(self._parsed(name, one) for one in text or ())
        if isinstance(text, list):
            text = ",".join(text)
        return self._parsed(name, text)

    def _parsed(self, name: str, text: Any) -> Any:
        if self.parse is None or text is None:
            return text
        try:
            return self.parse(text)
        except ValueError as error:
            raise ParameterError(name, text, str(error)) from None

    def check(self, name: str, value: Any) -> None:
        """Check the value of a field.

        Parameters
        ----------
        name : of the field
        value : of any type; of a tuple, every element is checked

        Raises
        ------
        ParameterError : it is not one of the choices, or out of bounds
        """
        least, most = self.bounds
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            if self.choices and one not in self.choices:
                raise ParameterError(name, value, f"expected one of {', '.join(self.choices)}")
            is_low, is_high = least is not None and not one >= least, most is not None and not one <= most
            if is_low or is_high:
                raise ParameterError(name, value, f"at least {least}" if most is None else f"outside {least}…{most}")


def option(
    default: Any,
    *flags: str,
    help: str,
    metavar: str | None = None,
    off: str | None = None,
    choices: tuple[str, ...] = (),
    bounds: tuple[float | None, float | None] = (None, None),
    parse: Callable[[str], Any] | None = None,
    repeatable: bool = False,
    text: bool = False,
) -> Any:
    """Return a dataclass field that is an option of the command line (see `Option` for the arguments)."""
    described = Option(flags, help, metavar, off, choices, bounds, parse, repeatable, text)
    return field(default=default, metadata={"option": described})


def options_of(record: Any) -> dict[str, tuple[Option, Any]]:
    """Return option and default of each field that has one, by name; `record` is a record or its type."""
    return {each.name: (each.metadata["option"], each.default) for each in fields(record) if "option" in each.metadata}


class Record:
    """A frozen dataclass of options, whose values are checked when it is created.

    Raises
    ------
    ParameterError : a value that its option does not allow
    """

    def __post_init__(self) -> None:
        hints = {each.name: each.type for each in fields(cast(Any, self))}
        for name, (described, _) in options_of(cast(Any, self)).items():
            value = getattr(self, name)
            if not _is_of(value, hints[name]):
                raise ParameterError(name, value, f"expected {getattr(hints[name], '__name__', hints[name])}")
            described.check(name, value)


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of a field; an int is accepted for a float, a bool for neither."""
    if isinstance(hint, UnionType):
        return any(_is_of(value, one) for one in get_args(hint))
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    kind = get_origin(hint) or hint
    return not isinstance(kind, type) or isinstance(value, kind)


def seed_option() -> Any:
    """Return the option of the seed, the same for every command that draws at random."""
    return option(0, help="Of every random choice.", metavar="N", bounds=(0, 2**32 - 1))


def parse_names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_counts(text: str) -> tuple[int, ...]:
    """Read whole numbers with commas between."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError("expected whole numbers with commas between, such as 1000,1000") from None
