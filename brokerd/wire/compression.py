"""Compression codecs of record batches. Does not interpret the records.

Invariants: the size of decompressed data is limited before memory is allocated. Kafka's own clients can read the compressed data.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
COMPRESSION_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""Maximum decompressed bytes of one batch. A larger one (a decompression bomb) is rejected."""
BUFFER_BYTES_FIRST, BUFFER_GROWTH = 16 * 1024, 4
"""Size of the first buffer for decompression, and the growth factor of the next one. Failed attempts cost a third of the whole."""
MAPPED_BYTES_MIN = 1024 * 1024
"""Buffers of this size or more are anonymous memory of the kernel. Python would fill its own buffers with zeros, and all threads would wait during this time."""
XERIAL = b"\x82SNAPPY\x00"
SNAPPY_BLOCK_BYTES = 32 * 1024
"""Block size of Kafka's lz4 writer. Kafka's readers have a buffer of this size."""
Buffer = bytes | bytearray | memoryview
_INT = struct.Struct(">i")


class CorruptBatch(ValueError):
    """The data is damaged: its length or CRC is wrong."""


class TooLarge(CorruptBatch):
    """The decompressed data would exceed the limit."""


class InvalidBatch(ValueError):
    """The data is not damaged, but a broker must not accept it."""


def compress(data: Buffer, kind: int, level: int | None = None) -> bytes:
    """`level`: of gzip, lz4 or zstd; None: the default of the library."""
    if kind == NONE:
        return bytes(data)
    if kind == GZIP:
        return bytes(cramjam.gzip.compress(data, level))
    if kind == LZ4:
        # Blocks that depend on each other are smaller, but Kafka's own clients reject them.
        packer = cramjam.lz4.Compressor(level=level, block_linked=False)
        packer.compress(bytes(data))  # this one call of the library takes bytes only
        return bytes(packer.finish())
    if kind == ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    if kind == SNAPPY:
        out = bytearray(XERIAL + struct.pack(">ii", 1, 1))
        for start in range(0, len(data), SNAPPY_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + SNAPPY_BLOCK_BYTES]))
            out += _INT.pack(len(block)) + block
        return bytes(out)
    raise InvalidBatch(f"compression type {kind} is unknown")


def decompress(data: Buffer, kind: int, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Decompress to at most `bytes_max` bytes. Raises TooLarge above it, CorruptBatch for invalid data. Other threads run during this time."""
    packed = bytes(data)
    try:
        if kind == SNAPPY:
            return _unsnappy(packed, bytes_max)
        module = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}.get(kind)
        if module is None:
            raise CorruptBatch(f"compression type {kind} is unknown")
        # Decompress into a growing buffer of limited size, so that a decompression bomb cannot use all memory.
        capacity = min(max(4 * len(packed), BUFFER_BYTES_FIRST), bytes_max)
        while True:
            out: Any = bytearray(capacity) if capacity < MAPPED_BYTES_MIN else mmap.mmap(-1, capacity)
            try:
                n = module.decompress_into(packed, out)
                return bytes(memoryview(out)[:n]) if capacity < MAPPED_BYTES_MIN else memoryview(out)[:n].toreadonly()
            except cramjam.DecompressionError as e:
                if "failed to write whole buffer" not in str(e):
                    raise
            if capacity >= bytes_max:
                raise TooLarge(
                    f"the compressed batch has more than {bytes_max} bytes after decompression: send smaller batches"
                )
            capacity = min(BUFFER_GROWTH * capacity, bytes_max)
    except cramjam.DecompressionError as e:
        raise CorruptBatch(f"{COMPRESSION_NAMES[kind]} data cannot be decompressed: {e}") from e


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(XERIAL):
        return _unsnappy_block(data, bytes_max)
    out, pos = bytearray(), 16
    while pos < len(data):
        if pos + 4 > len(data):
            raise CorruptBatch("a snappy block is incomplete")
        (n,) = _INT.unpack_from(data, pos)
        pos += 4
        if n < 0 or pos + n > len(data):
            raise CorruptBatch("a snappy block is incomplete")
        out += _unsnappy_block(data[pos : pos + n], bytes_max - len(out))
        pos += n
    return bytes(out)


def _unsnappy_block(block: bytes, bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > bytes_max:
        raise TooLarge("a batch has too many bytes after decompression: send smaller batches")
    return bytes(cramjam.snappy.decompress_raw(block))
