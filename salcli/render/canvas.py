"""Where figures are drawn: matplotlib without its global state, and SVG that may stand inside a page."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any
from xml.etree import ElementTree

WIDTH = 4.5
"""Inches: narrow, so that letters stay legible on a phone, and two figures stand side by side on a screen."""
BEFORE, AFTER, CONTROL = "#D55E00", "#0072B2", "#767676"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#3B9DD6", "#4D4D4D")
"""After Okabe and Ito, distinct with every kind of colour blindness; the yellows are darkened for a white ground."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")
INK, FAINT = "#333333", "#D9D9D9"

GROUND, GRID, LIMIT = "#FFFFFF", "#ECECEC", "#B3261E"
VARIABLES = {
    **dict(zip(COLOURS, ("blue", "orange", "green", "pink", "gold", "sky", "coal"), strict=True)),
    CONTROL: "control",
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    GROUND: "ground",
    LIMIT: "limit",
}
"""Names of the colours in the page's style sheet, which has others for a dark ground."""

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SETTINGS = {
    "svg.fonttype": "none",  # the browser has glyphs for every script, and text can be found and read aloud
    "text.parse_math": False,  # a dollar sign from a file is no formula
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.4,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
}


class Canvas:
    """A figure of `WIDTH` whose margins are set in inches: matplotlib's layout engines fail on odd labels."""

    def __init__(self, height: float) -> None:
        from matplotlib.figure import Figure

        self.height = height
        self.figure: Any = Figure(figsize=(WIDTH, height), facecolor="none")
        self.svg = ""
        """Filled when the drawing is done."""

    def axes(self, *, left: float, right: float = 0.15, top: float = 0.35, bottom: float = 0.45) -> Any:
        """Return new axes.

        Parameters
        ----------
        left, right, top, bottom : margins in inches between the axes and the edges of the figure
        """
        box = (
            left / WIDTH,
            bottom / self.height,
            (WIDTH - left - right) / WIDTH,
            (self.height - top - bottom) / self.height,
        )
        return self.figure.add_axes(box, facecolor="none")

    def legend(self, handles: Sequence[Any], labels: Sequence[str], *, columns: int, **look: Any) -> None:
        """Draw a legend at the top of the figure.

        Parameters
        ----------
        handles : matplotlib artists
        labels : a text for each of `handles`
        columns : number of columns
        look : further arguments of `matplotlib.figure.Figure.legend`
        """
        # matplotlib leaves out labels that begin with an underscore
        shown = [f" {label}" if label.startswith("_") else label for label in labels]
        place = {"loc": "upper left", "bbox_to_anchor": (0.1 / WIDTH, 1 - 0.05 / self.height)}
        self.figure.legend(handles, shown, ncols=columns, **place, **look)


@contextmanager
def canvas(height: float, salt: str) -> Iterator[Canvas]:
    """Open a figure; its `svg` is set when the block ends.

    Parameters
    ----------
    height : of the figure, in inches
    salt : prefix of every id in the SVG, so that figures with different salts can stand in one page
    """
    import matplotlib.style

    with matplotlib.style.context(["default", {**_SETTINGS, "svg.hashsalt": salt}]), warnings.catch_warnings():
        # letters that the font for measuring lacks are the browser's to draw
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        drawn = Canvas(height)
        yield drawn
        text = StringIO()
        drawn.figure.savefig(text, format="svg", metadata={"Date": None})
    drawn.svg = _inlined(text.getvalue(), salt)


def _inlined(svg: str, salt: str) -> str:
    """Return matplotlib's SVG for use inside a page: without prolog, metadata and page-wide style, with unique ids."""
    root = ElementTree.fromstring(svg)  # noqa: S314 -- written by matplotlib a moment ago, all text in it escaped
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    referred = {value[1:] for element in root.iter() if (value := element.get(_HREF, "")).startswith("#")}
    referred |= {name for e in root.iter() for name in re.findall(r"url\(#([^)]+)\)", " ".join(e.attrib.values()))}
    for element in root.iter():
        _rename_ids(element, salt, referred)
        for name in ("style", "fill", "stroke"):
            if name in element.attrib:
                element.set(name, re.sub("#[0-9a-fA-F]{6}", _variable, element.attrib[name]))
    root.set("xmlns", _SVG)
    root.set("style", "stroke-linejoin:round;stroke-linecap:butt")  # from the style element that was removed
    return ElementTree.tostring(root, encoding="unicode")


def _variable(colour: re.Match[str]) -> str:
    """Return a colour as a CSS variable of the page, with the colour itself as the fallback outside the page."""
    name = VARIABLES.get(colour[0].upper())
    return colour[0] if name is None else f"var(--plot-{name}, {colour[0]})"


def _rename_ids(element: ElementTree.Element, salt: str, referred: set[str]) -> None:
    element.tag = element.tag.removeprefix(f"{{{_SVG}}}")  # else each name in the text gets a prefix
    if (name := element.attrib.pop("id", None)) in referred:
        element.set("id", f"{salt}-{name}")
    if (target := element.attrib.pop(_HREF, "")).startswith("#"):
        element.set("href", f"#{salt}-{target[1:]}")
    for key, value in element.attrib.items():
        if "url(#" in value:
            element.set(key, value.replace("url(#", f"url(#{salt}-"))
