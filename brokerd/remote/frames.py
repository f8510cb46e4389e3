"""The protocol between a broker and its helper process: frames of JSON over a socket. Pure.

A frame is a length of 4 bytes, big-endian, and JSON. A request is [id, operation, fields], a response [id, error, value]: one response per request, in any
order. The fields may have TIMEOUT_MS: the broker does not wait longer. Invariants: the length of a frame is checked before it is collected. Does not contain: the meaning of the operations.
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Any

_LENGTH = struct.Struct(">I")
FRAME_BYTES_MAX = 64 * 1024 * 1024
"""A snapshot of very many producers is the largest frame: about 150 bytes for each."""

TIMEOUT_MS = "timeout_ms"


class HelperError(IntEnum):
    """The result of a request. NO_RESPONSE: the helper ended, or did not respond in time."""

    NONE = 0
    STORE_UNAVAILABLE = 1
    OBJECT_MISSING = 2
    DAMAGED = 3
    LOCAL_FILE = 4
    INVALID = 5
    NO_RESPONSE = 6


class MalformedFrame(Exception):
    """The other process has another version of the protocol."""


def encode(message: list[object]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[list[Any]]:
        """The messages that are complete now. Raises MalformedFrame."""
        self._data += data
        out = []
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > FRAME_BYTES_MAX:
                raise MalformedFrame(f"a frame of {length} bytes; the limit is {FRAME_BYTES_MAX}")
            end = _LENGTH.size + length
            if len(self._data) < end:
                break
            try:
                message = json.loads(self._data[_LENGTH.size : end])
            except ValueError as e:
                raise MalformedFrame(str(e)) from e
            if not isinstance(message, list) or len(message) != 3:
                raise MalformedFrame(f"{str(message)[:100]} is not a message")
            out.append(message)
            del self._data[:end]
        return out
