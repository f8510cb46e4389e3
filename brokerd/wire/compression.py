"""Batches' codecs: pack and unpack within a bound.

Laws: what is unpacked is bounded before it is unpacked; what is packed, Kafka's own clients can read. Called by `records`. Must not come in: what
the bytes say.
"""

from __future__ import annotations

import struct

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
COMPRESSION_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""Bytes one batch may unpack to; a compressed bomb is refused beyond it."""
XERIAL = b"\x82SNAPPY\x00"
SNAPPY_BLOCK_BYTES = 32 * 1024
"""Kafka's own block size: its readers keep a buffer of this."""
Buffer = bytes | bytearray | memoryview
_INT = struct.Struct(">i")


class CorruptBatch(ValueError):
    """The bytes are damaged: length or CRC."""


class InvalidBatch(ValueError):
    """The bytes are whole, but no broker may accept them."""


def compress(data: bytes, kind: int) -> bytes:
    if kind == NONE:
        return data
    if kind == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if kind == LZ4:
        # Blocks that lean on each other are smaller, but Kafka's own clients refuse them.
        packer = cramjam.lz4.Compressor(block_linked=False)
        packer.compress(data)
        return bytes(packer.finish())
    if kind == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    if kind == SNAPPY:
        out = bytearray(XERIAL + struct.pack(">ii", 1, 1))
        for start in range(0, len(data), SNAPPY_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + SNAPPY_BLOCK_BYTES]))
            out += _INT.pack(len(block)) + block
        return bytes(out)
    raise InvalidBatch(f"compression type {kind} is unknown")


def decompress(data: Buffer, kind: int, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Unpack within `bytes_max`; CorruptBatch when it cannot be done."""
    packed = bytes(data)
    try:
        if kind == SNAPPY:
            return _unsnappy(packed, bytes_max)
        module = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}.get(kind)
        if module is None:
            raise CorruptBatch(f"compression type {kind} is unknown")
        # Into a buffer of our own that grows by doubling: a bomb meets its end, not ours.
        room = min(max(4 * len(packed), 16 * 1024), bytes_max)
        while True:
            out = bytearray(room)
            try:
                return bytes(memoryview(out)[: module.decompress_into(packed, out)])
            except cramjam.DecompressionError as e:
                if "failed to write whole buffer" not in str(e):
                    raise
            if room >= bytes_max:
                raise CorruptBatch(f"a batch unpacks to more than {bytes_max} bytes")
            room = min(2 * room, bytes_max)
    except cramjam.DecompressionError as e:
        raise CorruptBatch(f"{COMPRESSION_NAMES[kind]} data cannot be unpacked: {e}") from e


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(XERIAL):
        return _unsnappy_block(data, bytes_max)
    out, pos = bytearray(), 16
    while pos < len(data):
        if pos + 4 > len(data):
            raise CorruptBatch("a snappy block is cut off")
        (n,) = _INT.unpack_from(data, pos)
        pos += 4
        if n < 0 or pos + n > len(data):
            raise CorruptBatch("a snappy block is cut off")
        out += _unsnappy_block(data[pos : pos + n], bytes_max - len(out))
        pos += n
    return bytes(out)


def _unsnappy_block(block: bytes, bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > bytes_max:
        raise CorruptBatch("a batch unpacks to more bytes than allowed")
    return bytes(cramjam.snappy.decompress_raw(block))
