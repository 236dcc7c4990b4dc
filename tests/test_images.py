"""Every file a visitor may bring becomes an upright RGB picture or one clear sentence."""

import io
import struct
import threading
import zlib
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from glance import images
from glance.errors import BadInput


def gradient(size=(120, 60), mode="RGB"):
    """Red at the left, blue at the right."""
    image = Image.new("RGB", size, (200, 30, 30))
    ImageDraw.Draw(image).rectangle((size[0] // 2, 0, size[0], size[1]), fill=(30, 30, 200))
    return image.convert(mode)


def pdf(path: Path, pages: int = 1) -> Path:
    """A PDF whose page n is filled with 40 n grey."""
    sheets = [Image.new("RGB", (200, 100), (40 * n,) * 3) for n in range(1, pages + 1)]
    sheets[0].save(path, "PDF", save_all=True, append_images=sheets[1:], resolution=72)
    return path


def locked_pdf(path: Path) -> Path:
    """A PDF with a standard encryption dictionary whose user password is not the empty one."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 100 100]>>",
        b"<</Filter/Standard/V 1/R 2/P -4/O<" + b"11" * 32 + b">/U<" + b"22" * 32 + b">>>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj" % number + body + b"endobj\n"
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer<</Size 5/Root 1 0 R/Encrypt 4 0 R/ID[<00><00>]>>\nstartxref\n%d\n%%%%EOF" % len(out)
    path.write_bytes(out + b"xref\n0 5\n0000000000 65535 f \n" + table + trailer)
    return path


def bomb(path: Path, width: int, height: int) -> Path:
    """A PNG of one bit a pixel: tiny on disk, huge in memory."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = zlib.compress(bytes((width + 7) // 8 + 1) * height, 9)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    return path


def sentence(path, page=0) -> str:
    with pytest.raises(BadInput) as caught:
        images.load_image(path, page)
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 200
    assert str(path) not in text
    return text


def test_no_file(tmp_path):
    assert "choose an image or a PDF" in sentence(None)
    assert "choose it again" in sentence(tmp_path / "gone.png")


def test_empty_file(tmp_path):
    path = tmp_path / "a.png"
    path.touch()
    assert "empty" in sentence(path)


def test_text_with_the_name_of_a_picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("<html><script>alert(1)</script></html>")
    assert "neither a picture nor a PDF" in sentence(path)


def test_svg(tmp_path):
    path = tmp_path / "a.svg"
    path.write_text('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>')
    assert "export the drawing as PNG" in sentence(path)


def test_truncated_jpeg(tmp_path):
    path = tmp_path / "a.jpg"
    gradient((400, 400)).save(path)
    path.write_bytes(path.read_bytes()[:1500])
    assert "damaged" in sentence(path)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_bombs_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    def explode(*_args, **_kwargs):
        raise AssertionError("a pixel was decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", explode)
    assert "144 megapixels" in sentence(bomb(tmp_path / "a.png", 12000, 12000))
    assert "at most 40 megapixels" in sentence(bomb(tmp_path / "b.png", 20000, 20000))


def test_file_over_the_byte_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MAX_BYTES", 2**20)
    path = tmp_path / "a.png"
    path.write_bytes(bytes(3 * 2**20))
    assert "3 MB" in sentence(path) and "at most 1 MB" in sentence(path)


@pytest.mark.parametrize("size", [(10, 3000), (3000, 10), (2010, 10)])
def test_strip(tmp_path, size):
    path = tmp_path / "a.png"
    Image.new("RGB", size).save(path)
    text = sentence(path)
    assert f"{max(size) / 10:.0f} to 1" in text and "200 to 1" in text


def test_the_longest_strip_allowed(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (10, 2000)).save(path)
    image, notes = images.load_image(path)
    assert image.size == (32, 6400) and "enlarged" in notes[0]


@pytest.mark.parametrize("size", [(1, 1), (25, 27), (30, 305)])
def test_tiny_pictures_are_enlarged(tmp_path, size):
    path = tmp_path / "a.png"
    Image.new("RGB", size, (9, 99, 199)).save(path)
    image, notes = images.load_image(path)
    assert min(image.size) == images.MIN_SIDE and image.getpixel((0, 0)) == (9, 99, 199)
    assert any("enlarged" in note for note in notes)


def test_long_screenshot_keeps_legible_width_and_ratio(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (690, 15420)).save(path)
    image, notes = images.load_image(path)
    assert image.width > 400 and abs(image.height / image.width - 15420 / 690) < 0.1
    assert any("scaled from 690×15420" in note for note in notes)


def test_large_jpeg_is_scaled(tmp_path):
    path = tmp_path / "a.jpg"
    gradient((6000, 4000)).save(path, quality=50)
    image, _ = images.load_image(path)
    assert image.width * image.height <= images.WORK_PIXELS * 1.01
    assert abs(image.width / image.height - 1.5) < 0.01


def test_exif_rotation(tmp_path):
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    gradient().save(path, exif=exif, quality=95)
    image, notes = images.load_image(path)
    assert image.size == (60, 120) and "turned upright" in notes[0]
    assert image.getpixel((30, 10))[0] > 150 and image.getpixel((30, 110))[2] > 150


def test_transparency_lands_on_white(tmp_path):
    path = tmp_path / "a.png"
    ink = Image.new("RGBA", (60, 60), (0, 0, 0, 0))
    ink.paste((0, 0, 0, 255), (20, 20, 40, 40))
    ink.save(path)
    image, notes = images.load_image(path)
    assert image.getpixel((5, 5)) == (255, 255, 255) and image.getpixel((30, 30)) == (0, 0, 0)
    assert notes == ("transparency placed on white",)


def test_palette_transparency(tmp_path):
    path = tmp_path / "a.png"
    image = Image.new("P", (60, 60), 0)
    image.putpalette([0, 0, 0, 10, 200, 10])
    image.paste(1, (20, 20, 40, 40))
    image.save(path, transparency=0)
    out, _ = images.load_image(path)
    assert out.getpixel((5, 5)) == (255, 255, 255) and out.getpixel((30, 30)) == (10, 200, 10)


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    path = tmp_path / "a.png"
    image = Image.new("I;16", (64, 64), 32896)
    image.putpixel((0, 0), 65535)
    image.save(path)
    out, notes = images.load_image(path)
    assert out.getpixel((5, 5)) == (128, 128, 128) and out.getpixel((0, 0)) == (255, 255, 255)
    assert "16 bits" in notes[0]


@pytest.mark.parametrize(
    ("mode", "name"),
    [("CMYK", "a.jpg"), ("L", "a.png"), ("1", "a.tif"), ("P", "a.png"), ("LA", "a.png"), ("RGB", "a.bmp"),
     ("RGB", "a.webp"), ("LAB", "a.tif"), ("RGB", "a.avif")],
)  # fmt: skip
def test_modes(tmp_path, mode, name):
    path = tmp_path / name
    if mode == "LAB":
        Image.new("LAB", (64, 64), (128, 128, 128)).save(path)
    else:
        gradient(mode=mode).save(path)
    image, _ = images.load_image(path)
    assert image.mode == "RGB"
    if mode in ("CMYK", "RGB", "P"):
        assert image.getpixel((10, 50))[0] > 150 > image.getpixel((110, 50))[0]


def test_float_pictures_are_refused(tmp_path):
    path = tmp_path / "a.tif"
    Image.new("F", (64, 64), 0.5).save(path)
    assert "8-bit PNG" in sentence(path)


@pytest.mark.parametrize("value", [-1, 65536, 2**31 - 1])
def test_numbers_beyond_16_bits_are_refused_and_not_clipped(tmp_path, value):
    path = tmp_path / "a.tif"
    image = Image.new("I", (64, 64), 1000)
    image.putpixel((3, 3), value)
    image.save(path)
    assert "32-bit numbers cannot be read; save it as an 8-bit PNG" in sentence(path)
    image.putpixel((3, 3), 65535)
    image.save(path)
    assert images.load_image(path)[0].getpixel((3, 3)) == (255, 255, 255)


@pytest.mark.parametrize("text", ["%PDF-1.7", "<svg"])
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.webp", "a.avif"])
def test_a_picture_whose_metadata_speaks_of_other_formats_is_read(tmp_path, name, text):
    path = tmp_path / name
    exif = Image.Exif()
    exif[0x010E] = f"converted from {text}"
    about = PngInfo()
    about.add_text("Source", f"converted from {text}")
    given = {"pnginfo": about} if name == "a.png" else {"comment": text.encode()} if name == "a.gif" else {"exif": exif}
    gradient((64, 64)).save(path, **given)
    data = path.read_bytes()
    if name in ("a.png", "a.jpg", "a.avif"):  # the others keep it behind the pixels
        assert text.encode() in data[:1024]
    assert images.load_image(path)[0].size == (64, 64) and images.page_count(path) == 1


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.tif"])
def test_first_of_several_pictures(tmp_path, name):
    path = tmp_path / name
    frames = [Image.new("RGB", (64, 64), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    image, notes = images.load_image(path)
    red, _green, blue = image.getpixel((30, 30))
    assert image.mode == "RGB" and red > 200 and blue < 60
    assert any("first picture" in note for note in notes)


def test_heic(tmp_path):
    heif = pytest.importorskip("pillow_heif")
    path = tmp_path / "IMG_0001.HEIC"
    heif.from_pillow(gradient((128, 64))).save(path)
    image, _ = images.load_image(path)
    assert image.size == (128, 64) and image.getpixel((10, 50))[0] > 150


def test_pdf_pages(tmp_path):
    path = pdf(tmp_path / "scan.png", pages=3)  # the name is not trusted
    assert images.page_count(path) == 3
    for page in range(3):
        image, notes = images.load_image(path, page)
        assert image.mode == "RGB" and abs(image.getpixel((50, 50))[0] - 40 * (page + 1)) < 4
        assert notes == (f"page {page + 1} of 3",)
    assert "a page from 1 to 3" in sentence(path, 3)
    assert "a page from 1 to 3" in sentence(path, -1)


def test_pdf_with_one_page(tmp_path):
    path = pdf(tmp_path / "a.pdf")
    image, notes = images.load_image(path)
    assert notes == () and image.width == 417
    assert "its only one" in sentence(path, 1)


def test_locked_pdf(tmp_path):
    assert "password" in sentence(locked_pdf(tmp_path / "a.pdf"))


def test_damaged_pdf(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.7\n" + b"nothing" * 50)
    assert "damaged" in sentence(path)


def test_pdf_from_many_threads(tmp_path):
    path, sizes = pdf(tmp_path / "a.pdf", pages=2), []
    threads = [
        threading.Thread(target=lambda p: sizes.append(images.load_image(path, p)[0].size), args=(n % 2,))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [(417, 209)] * 8


def test_page_count_of_a_picture(tmp_path):
    path = tmp_path / "a.png"
    gradient().save(path)
    assert images.page_count(path) == 1


def test_nothing_global_changes():
    assert Image.MAX_IMAGE_PIXELS == 89478485
    buffer = io.BytesIO()
    gradient().save(buffer, "PNG")
    assert Image.open(buffer).format == "PNG"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"There is no readable file gone\.png; choose it again"):
        images.load_image(tmp_path / "gone.png")


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_file_can_have_is_refused(name):
    with pytest.raises(BadInput, match="choose it again"):
        images.load_image(name)
