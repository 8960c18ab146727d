"""Image files of every kind that readers stumble over, written by the tests themselves."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np


def scene(height: int = 64, width: int = 80, seed: int = 0) -> np.ndarray:
    """Smooth colours with edges, so that JPEG keeps them and SIFT sees something."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    channels = []
    for _ in range(3):
        a, b, c, d = rng.uniform(2, 9, 4)
        channels.append(128 + 70 * np.sin(x / a + c) * np.cos(y / b + d) + 40 * ((x // 11 + y // 9) % 2))
    return np.clip(np.stack(channels, axis=-1), 0, 255).astype(np.uint8)


def png_header(width: int, height: int) -> bytes:
    """A PNG that declares a size and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


def write_ugly(folder: Path) -> dict[str, str | None]:
    """Write one file of each kind; return name -> None where it is read, or a piece of the reason."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(scene())
    expected: dict[str, str | None] = {}

    def add(name: str, reason: str | None = None) -> Path:
        expected[name] = reason
        return folder / name

    picture.save(add("plain.jpg"), quality=95)
    picture.convert("L").save(add("grey.jpg"), quality=95)
    picture.convert("1").save(add("bilevel.png"))
    picture.convert("CMYK").save(add("cmyk.jpg"), quality=95)
    picture.convert("P").save(add("palette.gif"))
    picture.convert("LAB").save(add("lab.tif"))
    picture.save(add("jpeg called.png"), format="JPEG")
    transparent = picture.convert("RGBA")
    transparent.putalpha(0)
    transparent.save(add("transparent.png"))
    Image.fromarray(scene()[:, :, 0].astype(np.uint16) * 257).save(add("sixteen.png"))
    frames = [Image.fromarray(scene(seed=seed)) for seed in range(3)]
    frames[0].save(add("animated.gif"), save_all=True, append_images=frames[1:])
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(add("turned.jpg"), exif=exif, quality=95)
    picture.save(add("bad exif.jpg"), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage", quality=95)

    Image.fromarray(np.zeros((1, 1, 3), np.uint8)).save(add("tiny.png", "too small: 1 x 1"))
    Image.fromarray(np.zeros((5, 300, 3), np.uint8)).save(add("strip.png", "too small: 300 x 5"))
    add("huge.png", "too large").write_bytes(png_header(20_000, 20_000))
    add("large.png", "too large: 10000 x 8500").write_bytes(png_header(10_000, 8_500))
    Image.fromarray(np.ones((40, 40), np.float32)).save(add("float.tif", "floating-point"))
    Image.fromarray(np.full((40, 40), 70_000, np.int32)).save(add("thirtytwo.tif", "32-bit"))
    whole = (folder / "plain.jpg").read_bytes()
    add("truncated.jpg", "truncated").write_bytes(whole[: len(whole) // 2])
    add("header only.jpg", "truncated").write_bytes(whole[:700])
    damaged = bytearray((folder / "sixteen.png").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    add("flipped.png", "damaged").write_bytes(bytes(damaged))
    add("noise.jpg", "not an image").write_bytes(np.random.default_rng(0).bytes(5000))
    add("empty.jpg", "empty").write_bytes(b"")
    add("notes.txt", "not an image").write_text("no image\n")
    add("page.svg", "not an image").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    add("program.eps", "not an image").write_text(
        "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\nshowpage\n"
    )
    if hasattr(os, "mkfifo"):
        os.mkfifo(add("pipe.jpg", "not a regular file"))
    (folder / "dangling.jpg").symlink_to(folder / "nowhere")
    expected["dangling.jpg"] = "cannot be read"
    return expected
