"""Tells what an image file is and whether it is whole, without decoding a pixel; imports errors.

Formats: PNG (W3C PNG, third edition), JPEG (ITU-T T.81) and WebP (RFC 9649). What is read is the
structure: signatures, the chain of chunks or markers, check sums where there are any, and the
size in pixels, which bounds what decoding it would cost whoever does.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, Final, Literal, NamedTuple, NoReturn

from agentmemory.errors import ValidationError

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_DEPTHS: Final = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
# Marks the end of entropy-coded data: not a stuffed byte, a restart marker or a fill byte.
_JPEG_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_JPEG_SIZES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


class ImageFormat(NamedTuple):
    """What an image file is: its MIME type, and its size in pixels."""

    mime_type: Literal["image/png", "image/jpeg", "image/webp"]
    width: int
    height: int


def inspect_image(data: Any, *, argument: str, max_bytes: int, max_pixels: int) -> ImageFormat:
    """Read the structure of an image file.

    Args:
        data: The file's bytes.
        argument: What errors call it.
        max_bytes: The largest file that is accepted.
        max_pixels: The largest width times height that is accepted.

    Raises:
        ValidationError: It is no still PNG, JPEG or WebP image, is damaged, or is too large.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        msg = f"`{argument}` must be the bytes of an image file, not {type(data).__name__}"
        raise ValidationError(msg, argument=argument)
    data = bytes(data)
    if len(data) > max_bytes:
        msg = f"`{argument}` has {len(data)} bytes; at most {max_bytes} are accepted"
        raise ValidationError(msg, argument=argument)
    try:
        if data.startswith(_PNG):
            found = _png(data)
        elif data.startswith(b"\xff\xd8\xff"):
            found = _jpeg(data)
        elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            found = _webp(data)
        else:
            _refuse("is no PNG, JPEG or WebP file")
    except _DamagedError as error:
        msg = (
            f"`{argument}` {error} (it starts with {data[:12]!r}); accepted: still images as "
            "whole PNG, JPEG or WebP files"
        )
        raise ValidationError(msg, argument=argument) from None
    if found.width * found.height > max_pixels:
        msg = (
            f"`{argument}` has {found.width} x {found.height} pixels; at most {max_pixels} "
            "in all are accepted"
        )
        raise ValidationError(msg, argument=argument)
    return found


class _DamagedError(Exception):
    """What is wrong with a file, in words that follow its name."""


def _refuse(problem: str) -> NoReturn:
    raise _DamagedError(problem)


def _take(data: bytes, start: int, count: int) -> bytes:
    part = data[start : start + count]
    if len(part) < count:
        _refuse("is cut off")
    return part


def _png(data: bytes) -> ImageFormat:
    place = len(_PNG)
    size: tuple[int, int] | None = None
    has_pixels = False
    while True:
        length = int.from_bytes(_take(data, place, 4))
        kind = _take(data, place + 4, 4)
        body = _take(data, place + 8, length)
        check = int.from_bytes(_take(data, place + 8 + length, 4))
        if zlib.crc32(body, zlib.crc32(kind)) != check:
            _refuse(f"is damaged: the check sum of its {kind!r} chunk is wrong")
        place += 12 + length
        if size is None:
            size = _png_header(kind, body)
        elif kind == b"acTL":
            _refuse("is animated")
        elif kind == b"IDAT":
            has_pixels = True
        elif kind == b"IEND":
            break
    if not has_pixels:
        _refuse("is damaged: it holds no pixels")
    if place != len(data):
        _refuse(f"is damaged: {len(data) - place} bytes follow its end")
    return ImageFormat("image/png", *size)


def _png_header(kind: bytes, body: bytes) -> tuple[int, int]:
    if kind != b"IHDR" or len(body) != 13:
        _refuse("is damaged: it does not start with a header")
    width, height = int.from_bytes(body[:4]), int.from_bytes(body[4:8])
    if not 0 < width < 2**31 or not 0 < height < 2**31:
        _refuse(f"is damaged: {width} x {height} pixels")
    if body[8] not in _PNG_DEPTHS.get(body[9], ()) or body[10] or body[11] or body[12] > 1:
        _refuse("is damaged: its header is of no known form")
    return width, height


def _jpeg(data: bytes) -> ImageFormat:
    place = 2
    size: tuple[int, int] | None = None
    has_pixels = False
    while True:
        if _take(data, place, 1) != b"\xff":
            _refuse("is damaged: a marker is missing")
        while _take(data, place, 1) == b"\xff":
            place += 1
        marker = data[place]
        place += 1
        if marker == 0xD9:
            break
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            _refuse("is damaged: a marker stands in the wrong place")
        length = int.from_bytes(_take(data, place, 2))
        body = _take(data, place, max(length, 2))
        if length < 2:
            _refuse("is damaged: a segment has no length")
        place += length
        if marker in _JPEG_SIZES:
            if size is not None or len(body) < 8:
                _refuse("is damaged: its frame header is of no known form")
            size = int.from_bytes(body[5:7]), int.from_bytes(body[3:5])
            if not all(size):
                _refuse(f"is damaged: {size[0]} x {size[1]} pixels")
        elif marker == 0xDA:
            has_pixels = True
            following = _JPEG_MARKER.search(data, place)
            if following is None:
                _refuse("is cut off")
            place = following.start()
    if size is None or not has_pixels:
        _refuse("is damaged: it holds no pixels")
    return ImageFormat("image/jpeg", *size)


def _webp(data: bytes) -> ImageFormat:
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        _refuse("is cut off")
    if len(data) - end > end % 2:
        _refuse(f"is damaged: {len(data) - end} bytes follow its end")
    place = 12
    size: tuple[int, int] | None = None
    has_pixels = False
    while place < end:
        kind = _take(data, place, 4)
        length = int.from_bytes(_take(data, place + 4, 4), "little")
        if place + 8 + length > end:
            _refuse("is cut off")
        body = _take(data, place + 8, length)
        place += 8 + length + length % 2
        if kind in (b"ANIM", b"ANMF"):
            _refuse("is animated")
        if kind == b"VP8X" and size is None:
            size = _webp_canvas(body)
        elif kind in (b"VP8 ", b"VP8L"):
            if has_pixels:
                _refuse("is damaged: it holds two images")
            has_pixels = True
            own = _vp8(body) if kind == b"VP8 " else _vp8l(body)
            size = size or own
            if own != size:
                _refuse("is damaged: its image does not fill its canvas")
        elif size is None:
            _refuse("is damaged: it does not start with an image")
    if size is None or not has_pixels:
        _refuse("is damaged: it holds no pixels")
    return ImageFormat("image/webp", *size)


def _webp_canvas(body: bytes) -> tuple[int, int]:
    _take(body, 0, 10)
    if body[0] & 0x02:
        _refuse("is animated")
    return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1


def _vp8(body: bytes) -> tuple[int, int]:
    _take(body, 0, 10)
    if body[0] & 1 or body[3:6] != b"\x9d\x01\x2a":
        _refuse("is damaged: it does not start with a key frame")
    size = (
        int.from_bytes(body[6:8], "little") & 0x3FFF,
        int.from_bytes(body[8:10], "little") & 0x3FFF,
    )
    if not all(size):
        _refuse(f"is damaged: {size[0]} x {size[1]} pixels")
    return size


def _vp8l(body: bytes) -> tuple[int, int]:
    _take(body, 0, 5)
    bits = int.from_bytes(body[1:5], "little")
    if body[0] != 0x2F or bits >> 29:
        _refuse("is damaged: its lossless header is of no known form")
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
