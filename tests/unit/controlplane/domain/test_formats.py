"""Formats: the text of each deserializer. Bytes that do not fit are shown as hex with the reason."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.formats import (
    DESERIALIZERS,
    LABELS,
    TEXT_CHARS_MAX,
    TOO_DEEP,
    Format,
    render,
    structure_of,
)

msgpack = pytest.importorskip("msgpack")


@pytest.mark.parametrize(
    ("data", "wanted", "text"),
    [
        (b"plain", Format.TEXT, "plain"),
        (b'{"a": 1}', Format.JSON, '{"a": 1}'),
        (b"\x00\xff", Format.HEX, "00ff"),
        (b"\x00\xff", Format.BASE64, "AP8="),
        (struct.pack(">q", -2), Format.INTEGER, "-2"),
        (struct.pack(">b", 7), Format.INTEGER, "7"),
        (struct.pack(">d", 1.5), Format.FLOAT, "1.5"),
        (msgpack.packb({"a": [1, b"\x01"]}), Format.MSGPACK, '{"a": [1, "01"]}'),
    ],
)
def test_bytes_in_a_requested_format(data: bytes, wanted: Format, text: str) -> None:
    shown = render(data, wanted)
    assert (shown.format, shown.text, shown.size, shown.note) == (wanted, text, len(data), "")


@pytest.mark.parametrize(
    ("data", "wanted", "reason"),
    [
        (b"\xff\xfe", Format.TEXT, "Not text: it is not UTF-8 (byte 0)."),
        (
            b"{",
            Format.JSON,
            "Not JSON: the name of a field is missing or is not in double quotation marks (line 1, column 2).",
        ),
        (b"abc", Format.INTEGER, "Not integer: it has 3 bytes; this format has 1, 2, 4, 8."),
        (b"\xc1", Format.MSGPACK, "Not MessagePack: "),
        (b"\x00\x00\x00\x00\x07x", Format.AVRO, "Not Avro: No schema registry is configured"),
    ],
)
def test_bytes_that_do_not_fit_are_hex_with_the_reason(data: bytes, wanted: Format, reason: str) -> None:
    shown = render(data, wanted)
    assert (shown.format, shown.text) == (Format.HEX, data.hex())
    assert shown.note.startswith(reason)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", Format.TEXT),
        (b"hello\n", Format.TEXT),
        (b' [1, "a"]', Format.JSON),
        (b"{not json", Format.TEXT),
        (b"123", Format.TEXT),
        (struct.pack(">q", 5), Format.HEX),
        (msgpack.packb({"a": 1}), Format.MSGPACK),
        (msgpack.packb(200), Format.HEX),
        (b"\xff\xfe", Format.HEX),
    ],
)
def test_the_automatic_format_does_not_guess_numbers(data: bytes, found: Format) -> None:
    assert render(data).format == found


def test_null_is_a_format_of_its_own() -> None:
    assert [render(None, f).format for f in Format] == ["null"] * len(Format)


def test_a_long_value_is_cut_and_marked_as_cut() -> None:
    shown = render(b"x" * (TEXT_CHARS_MAX + 1))
    assert shown.text is not None and (len(shown.text), shown.cut, shown.size) == (
        TEXT_CHARS_MAX,
        True,
        TEXT_CHARS_MAX + 1,
    )
    assert not render(b"x" * TEXT_CHARS_MAX).cut
    assert render(b"\xff" * TEXT_CHARS_MAX).cut, "hex has two characters per byte"


def test_a_value_that_is_nested_too_deeply_is_hex() -> None:
    deep = msgpack.packb(1)
    for _ in range(900):
        deep = b"\x91" + deep
    shown = render(deep, Format.MSGPACK)
    assert shown.format in (Format.HEX, Format.MSGPACK)
    assert shown.format == Format.MSGPACK or shown.note == TOO_DEEP or "MessagePack" in shown.note
    assert structure_of(b"[" * 5000 + b"]" * 5000) is None


def test_text_that_cannot_be_encoded_is_escaped() -> None:
    for data in (msgpack.packb({"a": "x"}).replace(b"x", b"\xff"), msgpack.packb({b"\xff": 1})):
        shown = render(data, Format.MSGPACK)
        assert shown.text is not None and shown.text.encode() and "\\" in shown.text


@given(st.binary(max_size=64), st.sampled_from(list(Format)))
def test_rendering_never_fails(data: bytes, wanted: Format) -> None:
    shown = render(data, wanted)
    assert shown.text is not None and shown.size == len(data)
    json.dumps(shown.text).encode()


def test_each_format_is_registered_and_has_a_label() -> None:
    assert set(DESERIALIZERS) == set(LABELS) == set(Format)
