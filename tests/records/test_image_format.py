"""What is accepted as an image: whole, still PNG, JPEG and WebP files within the limits."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmemory import AsyncAgentMemory, ImageInputLimitConfig, ValidationError
from agentmemory.image_format import ImageFormat, inspect_image


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int = 3, height: int = 2, *extra: bytes, depth: int = 8, colour: int = 0) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            *extra,
            chunk(b"IDAT", zlib.compress(bytes((width + 1) * height))),
            chunk(b"IEND", b""),
        )
    )


def jpeg(width: int = 3, height: int = 2, *, sof: int = 0xC0, tail: bytes = b"") -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    return b"".join(
        (
            b"\xff\xd8",
            b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\x00" + bytes(9),
            b"\xff\xff" + bytes([sof]) + struct.pack(">H", 2 + len(frame)) + frame,
            b"\xff\xda" + struct.pack(">H", 8) + b"\x01\x01\x00\x00\x3f\x00",
            b"scan\xff\x00data\xff\xd0more",
            b"\xff\xd9",
            tail,
        )
    )


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP"
    for kind, data in chunks:
        body += kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def vp8(width: int = 3, height: int = 2) -> tuple[bytes, bytes]:
    return b"VP8 ", b"\x10\x02\x00\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"data"


def vp8l(width: int = 3, height: int = 2) -> tuple[bytes, bytes]:
    return b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"x"


def vp8x(width: int = 3, height: int = 2, flags: int = 0) -> tuple[bytes, bytes]:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"VP8X", bytes([flags, 0, 0, 0]) + size


def inspect(data: Any, *, max_bytes: int = 1000, max_pixels: int = 1000) -> ImageFormat:
    return inspect_image(data, argument="image", max_bytes=max_bytes, max_pixels=max_pixels)


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (png(), "image/png"),
        (png(3, 2, chunk(b"tEXt", b"a\x00b")), "image/png"),
        (png(depth=16, colour=6), "image/png"),
        (jpeg(), "image/jpeg"),
        (jpeg(sof=0xC2), "image/jpeg"),
        (jpeg(tail=b"maker notes of a camera"), "image/jpeg"),
        (riff(vp8()), "image/webp"),
        (riff(vp8l()), "image/webp"),
        (riff(vp8x(), (b"ALPH", b"xyz"), vp8(), (b"EXIF", b"e")), "image/webp"),
    ],
)
def test_a_whole_still_image_is_known_with_its_size(data: bytes, mime_type: str) -> None:
    assert inspect(data) == (mime_type, 3, 2)
    assert inspect(bytearray(data)) == inspect(memoryview(data)) == inspect(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no PNG, JPEG or WebP"),
        (b"GIF89a" + bytes(20), "no PNG, JPEG or WebP"),
        (b"<svg/>", "no PNG, JPEG or WebP"),
        (b"RIFF\x04\x00\x00\x00WAVE", "no PNG, JPEG or WebP"),
        (png()[:-4], "cut off"),
        (png() + b"<script>", "8 bytes follow"),
        (png().replace(b"IHDR", b"IHDX"), "check sum"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IDAT", b""), "header"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes(13)), "0 x 0"),
        (png(depth=3), "no known form"),
        (png(colour=5), "no known form"),
        (png(3, 2, chunk(b"acTL", bytes(8))), "animated"),
        (png().replace(chunk(b"IDAT", zlib.compress(bytes(8))), b""), "no pixels"),
        (jpeg()[:-2], "cut off"),
        (jpeg()[:30], "cut off"),
        (jpeg(0, 2), "0 x 2"),
        (jpeg(sof=0xC4), "no pixels"),
        (b"\xff\xd8\xff\xd9", "no pixels"),
        (b"\xff\xd8\xff\xd0", "wrong place"),
        (b"\xff\xd8\xff\xe0\x00\x01", "no length"),
        (b"\xff\xd8\xff\xe0\x00\x02x", "marker is missing"),
        (riff(vp8())[:-3], "cut off"),
        (riff(vp8()) + b"tail", "4 bytes follow"),
        (riff(), "no pixels"),
        (riff(vp8x()), "no pixels"),
        (riff((b"EXIF", b"e"), vp8()), "start with an image"),
        (riff(vp8(), vp8()), "two images"),
        (riff(vp8x(9, 9), vp8()), "canvas"),
        (riff(vp8x(flags=2), vp8()), "animated"),
        (riff(vp8x(), (b"ANIM", bytes(6)), vp8()), "animated"),
        (riff((b"VP8 ", b"\x11" + vp8()[1][1:])), "key frame"),
        (riff((b"VP8L", b"\x2e" + vp8l()[1][1:])), "no known form"),
    ],
)
def test_what_is_no_whole_still_image_is_refused_and_told_why(data: bytes, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem) as caught:
        inspect(data)
    assert caught.value.argument == "image"


@pytest.mark.parametrize("data", [None, "text", 7, [1, 2]])
def test_what_is_not_bytes_is_refused(data: Any) -> None:
    with pytest.raises(ValidationError, match="bytes of an image file"):
        inspect(data)


@given(
    whole=st.sampled_from([png(), jpeg(), riff(vp8()), riff(vp8l()), riff(vp8x(), vp8())]),
    edits=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 200),
)
def test_a_damaged_file_is_refused_or_read_and_never_breaks_the_reader(
    whole: bytes, edits: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(whole[: len(whole) - cut] if cut < 20 else whole)
    for place, value in edits:
        if place < len(data):
            data[place] = value
    try:
        found = inspect(bytes(data), max_pixels=2**62)
    except ValidationError:
        return
    assert found.width > 0
    assert found.height > 0


async def test_the_limits_of_a_client_bound_the_file_and_its_pixels() -> None:
    data = png(20, 10)
    for limits, words in (
        (ImageInputLimitConfig(max_image_bytes=len(data) - 1), f"{len(data)} bytes"),
        (ImageInputLimitConfig(max_image_pixels=199), "20 x 10 pixels"),
    ):
        async with AsyncAgentMemory(
            ":memory:", embedder=None, image_input_limit_config=limits
        ) as memory:
            with pytest.raises(ValidationError, match=words):
                await memory.add_image(data, description="x", user_id="u1")
    exact = ImageInputLimitConfig(max_image_bytes=len(data), max_image_pixels=200)
    async with AsyncAgentMemory(
        ":memory:", embedder=None, image_input_limit_config=exact
    ) as memory:
        await memory.add_image(data, description="x", user_id="u1")


@pytest.mark.parametrize("value", [0, -1, 32 * 1024 * 1024 + 1, True, 1.5])
def test_a_limit_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="`max_image_bytes`"):
        ImageInputLimitConfig(max_image_bytes=value)


def test_the_default_limit_is_ten_mebibytes() -> None:
    assert ImageInputLimitConfig().max_image_bytes == 10 * 1024 * 1024
