"""Varints, tagged fields and strings: limits before memory is allocated."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.wire.primitives import (
    STRING_BYTES_MAX,
    Malformed,
    get_tag_count,
    get_uvarint,
    put_numbers,
    put_records,
    put_tags,
    put_uvarint,
    skip_tags,
    small_arrays,
)
from tests.unit.wire.test_schema import BEFORE_TAGS, Sample, pack_sample, unpack_sample


@pytest.mark.parametrize(
    "tags",
    [
        b"\1\1\3\0\0\0",
        b"\1\1\5\0\0\0\0\0",
        b"\1\1\4\0\0",
        b"\1\0\5\3\0\0\0\x09",
        b"\2\1\4\0\0\0\1",
        b"\x80\x80\x04",
        b"\1\1\xff\xff\xff\xff\x0f",
    ],
    ids=["too short", "too long", "cut off", "count beyond it", "one of two", "count of 65536", "4 GiB long"],
)
def test_inconsistent_tags_are_malformed(tags: bytes) -> None:
    with pytest.raises((Malformed, IndexError, struct.error)):
        unpack_sample(BEFORE_TAGS + tags, 1)


@pytest.mark.parametrize("data", [b"\x80" * 5 + b"\0", b"\xff" * 5, b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\x7f"])
def test_a_varint_beyond_32_bits_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        get_uvarint(data, 0)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_reads_back(n: int) -> None:
    out = bytearray()
    put_uvarint(out, n)
    assert get_uvarint(out, 0) == (n, len(out))
    assert len(out) == max(1, -(-n.bit_length() // 7))


def test_a_string_has_kafkas_limit_in_every_version() -> None:
    """A compact length permits longer strings, which would not fit the formats that store them."""
    longest = "x" * STRING_BYTES_MAX
    for version in (0, 1):
        assert unpack_sample(pack_sample(Sample(longest, inners=[]), version), version).name == longest
        with pytest.raises(ValueError, match="32768"):
            pack_sample(Sample(longest + "x", inners=[]), version)
        with pytest.raises(ValueError, match="32768"):
            pack_sample(Sample("ü" * 16_384, inners=[]), version)
    head = bytearray()
    put_uvarint(head, STRING_BYTES_MAX + 2)
    with pytest.raises(Malformed, match="32768"):
        unpack_sample(bytes(head) + b"x" * (STRING_BYTES_MAX + 1) + b"\0\1\0\1\1\0", 1)


def test_tagged_fields_are_written_and_skipped() -> None:
    out = bytearray()
    put_tags(out, [(0, bytearray(b"ab")), (300, bytearray())])
    assert bytes(out) == bytes.fromhex("02 00 02 6162 ac02 00")
    assert skip_tags(out, 0, len(out), [2]) == len(out)
    with pytest.raises(Malformed, match="exceeds its limit"):
        skip_tags(out, 0, len(out), [1])
    with pytest.raises(Malformed, match="tagged fields, 1 bytes remain"):
        get_tag_count(b"\x01\x00", 0, 2, [9])


@pytest.mark.parametrize("flexible", [False, True])
def test_short_and_long_arrays_of_numbers_have_the_same_format(flexible: bool) -> None:
    pack = small_arrays("i", flexible)[3]
    out = bytearray()
    put_numbers(out, [7, 8, 9], "i", flexible)
    assert out == pack(4 if flexible else 3, 7, 8, 9)


def test_bytes_of_a_file_region_are_counted_and_not_copied() -> None:
    class Region:
        fd = 5

        def __len__(self) -> int:
            return 100

    region, out, regions = Region(), bytearray(), list[Any]()
    put_records(out, regions, [b"ab", region, b"c"], flexible=False)
    assert bytes(out) == b"\x00\x00\x00\x67abc" and regions == [(6, region)]
