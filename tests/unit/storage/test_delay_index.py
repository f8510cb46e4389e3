"""The delay index of a segment: what was collected is read back, and nothing from a damaged file or of another segment."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c

from brokerd.storage import delay_index
from brokerd.storage.delay_index import (
    NO_KEY,
    STORED,
    DelayIndexBuilder,
    IndexContents,
    InvalidDelayIndex,
    open_contents,
    parse_header,
)
from brokerd.storage.key_index import LogFile, SegmentIdentity

BASE, END, BUCKET_MS = 100, 400, 1_000
HEADER_BYTES = 61
LOG = bytes(range(200))
IDENTITY = SegmentIdentity(BASE, len(LOG), 100, crc32c(LOG[100 : 100 + HEADER_BYTES]))
Record = tuple[int, int, bytes]


def log_file(data: bytes = LOG, base: int = BASE) -> LogFile:
    return LogFile(lambda length, position: data[position : position + length], base, len(data))


def build_index_file(records: list[Record]) -> bytearray:
    """A file with these records (delivery time, offset, digest), two tombstones and two journal entries."""
    builder, file = DelayIndexBuilder(BASE, BUCKET_MS), bytearray()

    def write(data: bytes, at: int) -> None:
        file.extend(bytes(max(0, at + len(data) - len(file))))
        file[at : at + len(data)] = data

    for record in records:
        builder.add_record(*record)
        if builder.full:
            write(*builder.run())
    builder.add_tombstone(b"a" * 16, 7)
    builder.add_tombstone(b"a" * 16, 9)
    builder.add_tombstone(b"b" * 16, 8)
    builder.add_journal(150, b"entry")
    builder.add_journal(160, b"")
    builder.discarded = 3
    write(*builder.run())
    tail, at, header = builder.finish(IDENTITY, END, 500)
    write(tail, at)
    write(header, 0)
    return file


def open_index(file: bytes | bytearray, log: LogFile | None = None, bucket_ms: int = BUCKET_MS) -> IndexContents:
    def read(length: int, position: int) -> bytes:
        return bytes(file[position : position + length])

    return open_contents(read, len(file), log or log_file(), bucket_ms)


def read_all(file: bytes | bytearray) -> list[bytes]:
    index = open_index(file).index
    return [index.records_of(g) for g in index.groups()]


def random_records(count: int) -> list[Record]:
    rng = random.Random(3)
    offsets = sorted(rng.sample(range(BASE, END), count))
    return [(rng.randrange(8_000), offset, rng.choice((b"", b"k" * 16))) for offset in offsets]


@pytest.mark.parametrize("run_records", [1, 7, 1_000])
def test_the_records_of_each_bucket_are_read_in_the_order_of_the_log(
    run_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_index, "RUN_RECORDS", run_records)
    records = random_records(90)
    contents = open_index(build_index_file(records))
    index = contents.index
    assert (index.base_offset, index.end_offset, contents.discarded) == (BASE, END, 3)
    for bucket in range(9):
        groups = index.groups_of(bucket)
        data = b"".join(map(index.records_of, groups))
        expected = [(at, o, d or NO_KEY) for at, o, d in records if at // BUCKET_MS == bucket]
        assert list(STORED.iter_unpack(data)) == expected
        assert min((g.first_ms for g in groups), default=None) == min((at for at, _, _ in expected), default=None)
    assert sum(g.records for g in index.groups()) == 90
    bits = int.from_bytes(contents.bitmap, "little")
    assert {BASE + i for i in range(END - BASE) if bits >> i & 1} == {o for _, o, _ in records}
    assert contents.tombstones == {b"a" * 16: 9, b"b" * 16: 8}
    assert contents.journal == ((150, b"entry"), (160, b""))


def test_a_segment_without_delayed_records_has_an_index() -> None:
    contents = open_index(build_index_file([]))
    assert list(contents.index.groups()) == [] and contents.bitmap == b"" and len(contents.journal) == 2


def test_an_index_of_another_content_is_not_used() -> None:
    file = build_index_file(random_records(5))
    assert parse_header(lambda length, position: bytes(file[position : position + length])).decided_below == 500
    for log in (log_file(base=BASE + 1), log_file(LOG + b"x"), log_file(LOG[:120] + b"!" + LOG[121:])):
        with pytest.raises(InvalidDelayIndex, match="another content"):
            open_index(file, log)
    with pytest.raises(InvalidDelayIndex, match="buckets of 1000 ms"):
        open_index(file, bucket_ms=BUCKET_MS + 1)


def test_no_damaged_byte_is_used() -> None:
    whole = build_index_file(random_records(40))
    assert sum(map(len, read_all(whole))) == 40 * STORED.size
    for position in range(len(whole)):
        file = bytearray(whole)
        file[position] ^= 0x55
        with pytest.raises(InvalidDelayIndex):
            read_all(file)
    for cut in (0, 10, len(whole) - 1):
        with pytest.raises(InvalidDelayIndex):
            open_index(whole[:cut])


def test_offsets_are_limited() -> None:
    builder = DelayIndexBuilder(BASE, BUCKET_MS)
    with pytest.raises(InvalidDelayIndex, match="too far"):
        builder.add_record(0, BASE + delay_index.OFFSETS_MAX, b"")
