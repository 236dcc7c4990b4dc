"""The nine free fonts that ship with the repository, so that every machine draws the same pixels."""

from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "fonts"
REGULAR = (
    "LiberationSans-Regular",
    "LiberationSerif-Regular",
    "LiberationMono-Regular",
    "DejaVuSans",
    "DejaVuSerif",
    "OpenSans-Regular",
    "Roboto-Regular",
)
BOLD = ("LiberationSans-Bold", "OpenSans-Bold")
ALL = REGULAR + BOLD


@lru_cache(maxsize=256)
def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """The font `name` at `size` pixels. Basic layout: shaping libraries differ between machines."""
    return ImageFont.truetype(str(FOLDER / f"{name}.ttf"), size, layout_engine=ImageFont.Layout.BASIC)
