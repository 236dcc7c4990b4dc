"""A file that a visitor chose, made into the RGB picture that the model reads.

Anything may arrive here: phone photos, scans, screenshots, PDFs, files with a wrong name, files made to harm. The
result is either an upright RGB picture with notes on what was changed, or `BadInput` with one sentence that says
what to do. Sizes are checked before a pixel is decoded.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any

import pypdfium2 as pdfium
from PIL import Image, ImageOps

from glance.errors import BadInput

try:
    import pillow_heif

    pillow_heif.register_heif_opener()
except ImportError:  # only HEIC photos need it
    pillow_heif = None

MAX_BYTES = 20 * 2**20
MAX_PIXELS = 40_000_000
MAX_ASPECT_RATIO = 200  # Qwen's image processors refuse more
MIN_SIDE = 32
WORK_PIXELS = 2048 * 2048
PDF_DPI = 150

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
# How the files of these formats begin; those of AVIF and HEIF have `ftyp` behind four bytes.
_RASTER = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"RIFF", b"BM", b"II*", b"MM\0*")
_CHOOSE = "choose a PNG, JPEG, WebP, GIF, TIFF, BMP, HEIC or PDF file"

# PDFium keeps state of its own for the whole process and is not thread-safe.
_pdf_lock = threading.Lock()

# `Image.open(formats=...)` raises KeyError for a plugin that has not been loaded yet.
Image.init()


def load_image(path: str | os.PathLike[str] | None, page: int = 0) -> tuple[Image.Image, tuple[str, ...]]:
    """Read an image or one page of a PDF.

    Args:
        path: the file; its name and ending are not trusted.
        page: page of a PDF, from 0; ignored for images.

    Returns:
        The picture as upright RGB without transparency, and notes for the visitor on what was changed.

    Raises:
        BadInput: one sentence that says what is wrong and what to do.
    """
    head = _head(path)
    if _is_pdf(head):
        image, notes = _load_pdf(path, page)
    else:
        image, notes = _load_raster(path, head)
    check_aspect(image)
    width, height = image.size
    if min(width, height) < MIN_SIDE:
        scale = MIN_SIDE / min(width, height)
        image = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BICUBIC)
        notes.append(f"enlarged from {width}×{height} to {image.width}×{image.height} pixels")
    return image, tuple(notes)


def check_aspect(image: Image.Image) -> None:
    """Refuse a strip longer than `MAX_ASPECT_RATIO` times its width. Raises `BadInput`."""
    ratio = max(image.size) / min(image.size)
    if ratio > MAX_ASPECT_RATIO:
        raise BadInput(
            f"The picture is {image.width}×{image.height} pixels, a ratio of {math.ceil(10 * ratio) / 10:g} to 1; "
            f"crop it to a ratio of at most {MAX_ASPECT_RATIO} to 1."
        )


def page_count(path: str | os.PathLike[str] | None) -> int:
    """Pages of a PDF, or 1 for any other file. Raises `BadInput` where the file cannot be opened."""
    if not _is_pdf(_head(path)):
        return 1
    with _pdf_lock:
        document = _open_pdf(path)
        try:
            return len(document)
        finally:
            document.close()


def _head(path: str | os.PathLike[str] | None) -> bytes:
    """The first kilobyte, after the checks that need no decoding."""
    if not path:
        raise BadInput("There is no picture yet; choose an image or a PDF.")
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(1024)
    except (OSError, ValueError):  # the latter for a name that no file can have
        name = os.path.basename(path)
        raise BadInput(f"There is no readable file {name}; choose it again, or another one.") from None
    if size == 0:
        raise BadInput(f"The file is empty (0 bytes); {_CHOOSE}.")
    if size > MAX_BYTES:
        raise BadInput(
            f"The file has {size / 2**20:.0f} MB; scale it down or split it to at most {MAX_BYTES // 2**20} MB."
        )
    return head


def _is_raster(head: bytes) -> bool:
    return head.startswith(_RASTER) or head[4:8] == b"ftyp"


def _is_pdf(head: bytes) -> bool:
    return b"%PDF-" in head and not _is_raster(head)  # a picture's metadata may hold anything


def _load_raster(path: Any, head: bytes) -> tuple[Image.Image, list[str]]:
    if b"<svg" in head.lower() and not _is_raster(head):
        raise BadInput("SVG drawings cannot be read; export the drawing as PNG and choose that.")
    notes: list[str] = []
    try:
        with Image.open(path, formats=[f for f in _FORMATS if f in Image.OPEN]) as source:
            width, height = source.size
            if width * height > MAX_PIXELS:
                raise _too_large(f"{width * height / 1e6:.0f} megapixels ({width}×{height})")
            if getattr(source, "n_frames", 1) > 1:
                notes.append("first picture of several in the file")
                source.seek(0)
            scale = min(1.0, (WORK_PIXELS / (width * height)) ** 0.5)
            if source.format == "JPEG":
                source.draft(None, (round(width * scale), round(height * scale)))  # the decoder halves for free
            source.load()
            image = ImageOps.exif_transpose(source)
            if image.size != source.size or source.getexif().get(0x0112, 1) > 1:
                notes.append("turned upright as the camera noted")
            image = _to_rgb(image, notes)
    except BadInput:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large("too many pixels") from None
    except MemoryError:
        raise BadInput("The picture needs more memory than there is; scale it down and choose it again.") from None
    except Exception as error:  # decoders raise anything from KeyError to struct.error on damaged files
        raise BadInput(_unreadable(head)) from error
    return _shrink(image, (width, height), notes), notes


def _to_rgb(image: Image.Image, notes: list[str]) -> Image.Image:
    """Every mode as RGB: 16 bits scaled rather than clipped, transparency on white rather than on black."""
    if image.mode.startswith("I"):
        deep = image.convert("I")
        low, high = deep.getextrema()
        if low < 0 or high > 65535:
            raise BadInput("Pictures of 32-bit numbers cannot be read; save it as an 8-bit PNG and choose that.")
        if image.mode != "I" or high > 255:
            deep = deep.point(lambda value: value / 257)
            notes.append("16 bits a colour scaled to 8")
        return deep.convert("L").convert("RGB")
    if image.mode == "F":
        raise BadInput("Pictures of floating-point numbers cannot be read; save it as an 8-bit PNG and choose that.")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getextrema()[3][0] < 255:
            notes.append("transparency placed on white")
        paper = Image.new("RGBA", image.size, "white")
        paper.alpha_composite(image)
        image = paper
    return image.convert("RGB")


def _shrink(image: Image.Image, original: tuple[int, int], notes: list[str]) -> Image.Image:
    """Bound the area, not a side: a long receipt keeps the width of its letters."""
    width, height = image.size
    if width * height > WORK_PIXELS:
        scale = (WORK_PIXELS / (width * height)) ** 0.5
        image = image.resize((max(1, round(width * scale)), max(1, round(height * scale))), Image.Resampling.LANCZOS)
    if image.width * image.height < 0.98 * original[0] * original[1]:
        notes.append(f"scaled from {original[0]}×{original[1]} to {image.width}×{image.height} pixels")
    return image


def _too_large(what: str) -> BadInput:
    return BadInput(f"The picture has {what}; scale it down to at most {MAX_PIXELS // 10**6} megapixels.")


def _unreadable(head: bytes) -> str:
    if head[4:8] == b"ftyp" and pillow_heif is None:
        return "HEIC photos need the package pillow-heif here; save the photo as JPEG and choose that."
    if head.startswith(_RASTER):
        return "The picture is damaged or incomplete; save it again and choose the new file."
    return f"The file is neither a picture nor a PDF, whatever its name says; {_CHOOSE}."


def _open_pdf(path: Any) -> pdfium.PdfDocument:
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise BadInput("The PDF is locked with a password; save a copy without one and choose that.") from error
        raise BadInput("The PDF is damaged or incomplete; save it again and choose the new file.") from error
    if len(document) == 0:
        document.close()
        raise BadInput("The PDF has no pages; choose another file.")
    return document


def _load_pdf(path: Any, page: int) -> tuple[Image.Image, list[str]]:
    with _pdf_lock:
        document = _open_pdf(path)
        try:
            pages = len(document)
            if not 0 <= page < pages:
                span = "page 1, its only one" if pages == 1 else f"a page from 1 to {pages}"
                raise BadInput(f"The PDF has no page {page + 1}; choose {span}.")
            if document.get_formtype():
                document.init_forms()  # else the filled-in fields of a form stay blank
            sheet = document[page]
            width, height = sheet.get_size()
            if min(width, height) <= 0:
                raise BadInput("The page of the PDF has no area; choose another page.")
            scale = min(PDF_DPI / 72, (WORK_PIXELS / (width * height)) ** 0.5)
            image = sheet.render(scale=scale).to_pil().convert("RGB")
            sheet.close()
        except pdfium.PdfiumError as error:
            raise BadInput("This page of the PDF could not be drawn; choose another page.") from error
        finally:
            document.close()
    return image, [f"page {page + 1} of {pages}"] if pages > 1 else []
