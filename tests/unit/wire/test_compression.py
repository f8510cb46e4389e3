"""Compression codecs: decompression bombs, older formats, and formats that Java clients require."""

from __future__ import annotations

import cramjam
import pytest

from brokerd.wire.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    CorruptBatch,
    InvalidBatch,
    TooLarge,
    compress,
    decompress,
)
from tests.unit.wire.test_records import CODECS


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_decompression_bomb_is_rejected_before_it_fills_memory(codec: int) -> None:
    bomb = compress(bytes(8_000_000), codec)
    assert decompress(bomb, codec, 8_000_000) == bytes(8_000_000)
    with pytest.raises(CorruptBatch):
        decompress(bomb, codec, 7_999_999)


def test_concatenated_gzip_and_old_raw_snappy_are_read() -> None:
    data = bytes(100)
    assert decompress(bytes(cramjam.gzip.compress(data)) * 2, GZIP) == data * 2
    assert decompress(bytes(cramjam.snappy.compress_raw(data)), SNAPPY) == data


def test_lz4_blocks_are_independent_as_java_clients_require() -> None:
    flags = compress(bytes(300_000), LZ4)[4]
    assert flags & 0b0010_0000


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_data_of_every_codec_is_read_back(codec: int) -> None:
    data = bytes(range(256)) * 400  # several snappy blocks
    packed = compress(memoryview(data), codec)
    assert len(packed) < len(data) or codec == NONE
    if codec != NONE:
        assert bytes(decompress(packed, codec)) == data
        with pytest.raises(TooLarge):
            decompress(packed, codec, len(data) - 1)
        assert bytes(decompress(packed, codec, len(data))) == data


def test_unknown_codecs_are_an_invalid_batch_of_a_producer_and_a_corrupt_batch_of_a_log() -> None:
    with pytest.raises(InvalidBatch):
        compress(b"x", 5)
    with pytest.raises(CorruptBatch):
        decompress(b"x", 5)


@pytest.mark.parametrize("cut", [17, 19, 25])
def test_a_truncated_snappy_block_is_corrupt(cut: int) -> None:
    packed = compress(bytes(100), SNAPPY)
    with pytest.raises(CorruptBatch, match="snappy"):
        decompress(packed[:cut], SNAPPY)
