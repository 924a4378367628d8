"""Pictures of a page for the docs: PNG with few colours, a third of what a browser writes.

The browser itself decodes its picture, so no library of images is needed.
"""

import base64
import struct
import zlib
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

COLOURS, ALIKE = 128, 14
Pixels = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
Packed = np.ndarray[tuple[int], np.dtype[np.uint32]]
BYTES_MAX = 120_000

_PIXELS = """async picture => {
    const image = new Image();
    image.src = "data:image/png;base64," + picture;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const data = context.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let at = 0; at < data.length; at += 8192) {
        text += String.fromCharCode(...data.subarray(at, at + 8192));
    }
    return [image.width, image.height, btoa(text)];
}"""


def keep(page: Page, path: Path) -> None:
    """Write what the page shows."""
    browser = page.context.browser
    assert browser is not None
    blank = browser.new_page()
    try:
        taken = base64.b64encode(page.screenshot()).decode()
        width, height, text = blank.evaluate(_PIXELS, taken)
    finally:
        blank.close()
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(height * width, 4)[:, :3]
    picture = _png(pixels, width, height)
    assert len(picture) <= BYTES_MAX, f"{path.name} takes {len(picture):,} bytes"
    path.write_bytes(picture)


def _png(pixels: Pixels, width: int, height: int) -> bytes:
    """The picture in few of its most frequent colours; each other colour becomes the nearest of them."""
    packed = pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, place, times = np.unique(packed, return_inverse=True, return_counts=True)
    palette = _palette(colours[np.argsort(times)[::-1]])
    apart = ((_split(colours)[:, None, :] - _split(palette)[None, :, :]) ** 2).sum(axis=2)
    lines = apart.argmin(axis=1)[place].astype(np.uint8).reshape(height, width)
    unfiltered = np.hstack([np.zeros((height, 1), np.uint8), lines]).tobytes()
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"PLTE", _split(palette).astype(np.uint8).tobytes()),
            (b"IDAT", zlib.compress(unfiltered, 9)),
            (b"IEND", b""),
        )
    )


def _palette(colours: Packed) -> Packed:
    """The first of these colours, of those that look alike only the first: a small icon keeps its colour."""
    chosen = colours[:1]
    for colour in colours[1:]:
        apart = ((_split(chosen) - _split(np.array([colour], np.uint32))) ** 2).sum(axis=1)
        if apart.min() > ALIKE**2:
            chosen = np.append(chosen, colour)
        if len(chosen) == COLOURS:
            break
    return chosen


def _split(
    packed: "np.ndarray[tuple[int], np.dtype[np.uint32]]",
) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
    """Red, green and blue of each colour."""
    return np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=1).astype(np.int32)
