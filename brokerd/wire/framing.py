"""Frames, headers and whole messages: conversion between the bytes of one frame and values. No sockets.

Invariants: invalid bytes raise only WireError. The ApiVersions response always has header version 0. Does not contain: the frames of a byte stream and
the limit of their size (`net/connection`).
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, Protocol

from brokerd.wire.apis import APIS, Api, ApiKey
from brokerd.wire.primitives import Malformed, skip_tags
from brokerd.wire.schema import Pack, Struct, Unpack, packer, unpacker

ELEMENTS_MAX = 100_000
"""The maximum number of array elements and tagged fields of one message, nested ones included: ten times the partitions of a large cluster.
A frame of 100 MiB could contain 50 million of two bytes each: minutes of CPU time on one thread and gigabytes of objects."""
_HEADER = struct.Struct(">hhih")
_INT = struct.Struct(">i")
_decoders: dict[tuple[int, int], tuple[bool, Unpack]] = {}
"""The results of `_decoder` by API key and version. Only supported versions are cached, so that no client can fill the cache."""
_encoders: dict[tuple[int, int], tuple[bool, Pack]] = {}
_BAD_BYTES = (Malformed, struct.error, IndexError, UnicodeDecodeError, ValueError)


class WireError(Exception):
    """Bytes that violate the protocol. The connection is closed."""


class MalformedRequest(WireError):
    pass


class UnknownApi(WireError):
    pass


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class UnsupportedVersion(WireError):
    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"API {header.api_key} version {header.api_version} is not served")
        self.header = header


class OpenFile(Protocol):
    def fileno(self) -> int: ...

    def resident(self, position: int, length: int) -> int: ...

    def cached_bytes(self, position: int, length: int) -> int: ...

    def size(self) -> int: ...

    def load(self, position: int, length: int, beyond: int = 0) -> None: ...

    def evict(self, position: int, length: int) -> None: ...


class FileRegion:
    """A region of an open file, sent without being read. Keeps `file` referenced, and so open, until it is sent."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        self.file, self.position, self.length = file, position, length

    def __len__(self) -> int:
        return self.length

    def without_first(self, n: int) -> FileRegion:
        return FileRegion(self.file, self.position + n, self.length - n)

    def __repr__(self) -> str:
        return f"FileRegion({self.position}+{self.length})"


Part = bytes | bytearray | memoryview | FileRegion


def _decoder(header: RequestHeader) -> tuple[bool, Unpack]:
    """Return whether the version is flexible, and the function that reads its body. Raises UnknownApi, UnsupportedVersion."""
    key, version = header.api_key, header.api_version
    api = APIS.get(key)
    if api is None:
        raise UnknownApi(f"API key {key} is not served")
    if not api.min_version <= version <= api.max_version:
        raise UnsupportedVersion(header)
    flexible = api.flexible(version)
    found = _decoders[key, version] = flexible, unpacker(api.request, version, flexible)
    return found


def decode_request(frame: memoryview) -> tuple[RequestHeader, Struct]:
    """Header and body of a request frame (without its length). Raises WireError; UnsupportedVersion carries the header."""
    try:
        key, version, correlation_id, n = _HEADER.unpack_from(frame, 0)
        pos = _HEADER.size
        client_id = None
        if n >= 0:
            if n > len(frame) - pos:
                raise MalformedRequest("the client id is cut off")
            client_id = str(frame[pos : pos + n], "utf-8")
            pos += n
        header = RequestHeader(key, version, correlation_id, client_id)
        flexible, unpack = _decoders.get((key, version)) or _decoder(header)
        end = len(frame)
        budget = [ELEMENTS_MAX]
        if flexible:
            pos = skip_tags(frame, pos, end, budget)
        body, pos = unpack(frame, pos, end, budget)
    except _BAD_BYTES as e:
        raise MalformedRequest(f"a request cannot be read: {e}") from e
    return header, body


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Struct) -> bytes:
    api = APIS[api_key]
    flexible = api.flexible(version)
    name = None if client_id is None else client_id.encode()
    out = bytearray(4)
    out += _HEADER.pack(api_key, version, correlation_id, -1 if name is None else len(name))
    if name:
        out += name
    if flexible:
        out.append(0)
    packer(api.request, version, flexible)(body, out, [])
    _INT.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _encoder(api_key: int, version: int) -> tuple[bool, Pack]:
    """Return whether the response header has tagged fields, and the function that writes the body."""
    api = APIS[api_key]
    flexible = api.flexible(version)
    found = flexible and api_key != ApiKey.API_VERSIONS, packer(api.response, version, flexible)
    _encoders[api_key, version] = found
    return found


def encode_response(api_key: int, version: int, correlation_id: int, body: Struct) -> list[Part]:
    """The response as parts to send in order: bytes and file regions. The first part contains the length of all parts."""
    has_tags, pack = _encoders.get((api_key, version)) or _encoder(api_key, version)
    out = bytearray(4)
    out += _INT.pack(correlation_id)
    if has_tags:
        out.append(0)
    regions: list[tuple[int, FileRegion]] = []
    pack(body, out, regions)
    if not regions:
        _INT.pack_into(out, 0, len(out) - 4)
        return [out]
    _INT.pack_into(out, 0, len(out) - 4 + sum(r.length for _, r in regions))
    parts: list[Part] = []
    view, start = memoryview(out), 0
    for position, region in regions:
        if position > start:
            parts.append(view[start:position])
            start = position
        parts.append(region)
    if start < len(out):
        parts.append(view[start:])
    return parts


def decode_response(api_key: int, version: int, frame: memoryview) -> tuple[int, Any]:
    """Correlation id and body of a response frame (without its length). Raises WireError."""
    api: Api = APIS[api_key]
    flexible = api.flexible(version)
    try:
        (correlation_id,) = _INT.unpack_from(frame, 0)
        pos, budget = 4, [ELEMENTS_MAX]
        if flexible and api_key != ApiKey.API_VERSIONS:
            pos = skip_tags(frame, pos, len(frame), budget)
        body, _ = unpacker(api.response, version, flexible)(frame, pos, len(frame), budget)
    except _BAD_BYTES as e:
        raise MalformedRequest(f"a response cannot be read: {e}") from e
    return correlation_id, body


__all__ = [
    "FileRegion",
    "MalformedRequest",
    "Part",
    "RequestHeader",
    "UnknownApi",
    "UnsupportedVersion",
    "WireError",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]
