"""How every picture looks, and how it becomes bytes: one style, drawn without pyplot.

Nothing global changes and no display is needed; the same picture gives the same bytes with the same version of
matplotlib. Colours: Okabe and Ito, "Color Universal Design", https://jfly.uni-koeln.de/color/
"""

import io
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
GRID = "#DDDDDD"
REMARK = "#444444"  # of words beside what is drawn
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's fonts where ours lack a script
    "svg.hashsalt": "mlrc",  # names of clip paths from the content, not from a random number
}


def png(make: Callable[[], Figure]) -> bytes:
    """The picture as PNG, 150 pixels an inch."""
    return _drawn(make, FigureCanvasAgg, format="png", dpi=150)


def svg(make: Callable[[], Figure]) -> bytes:
    """The picture as SVG, without a date in it."""
    return _drawn(make, FigureCanvasSVG, format="svg", metadata={"Date": None})


def _drawn(make: Callable[[], Figure], canvas: type[FigureCanvasAgg] | type[FigureCanvasSVG], **options: Any) -> bytes:
    out = io.BytesIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # names in any script are legal
        figure = make()
        canvas(figure)
        figure.savefig(out, **options)
    return out.getvalue()
