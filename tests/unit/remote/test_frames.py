"""Frames between a broker and its helper."""

from __future__ import annotations

import struct

import pytest

from brokerd.remote.frames import FRAME_BYTES_MAX, FrameReader, HelperError, MalformedFrame, encode


def test_messages_arrive_whole_whatever_the_pieces_are() -> None:
    messages = [[1, "read", {"offset": 5}], [2, HelperError.NONE, None], [3, "names", {"prefix": "x" * 500}]]
    data = b"".join(encode(m) for m in messages)
    for size in (1, 7, len(data)):
        reader, found = FrameReader(), []
        for at in range(0, len(data), size):
            found += reader.feed(data[at : at + size])
        assert found == messages


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", FRAME_BYTES_MAX + 1),
        struct.pack(">I", 1) + b"{",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 2) + b"{}",
    ],
)
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        FrameReader().feed(data)
