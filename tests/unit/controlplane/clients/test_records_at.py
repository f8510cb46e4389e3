"""Records at single offsets: found, missing in the log, or not read now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from brokerd.wire.records import Record
from controlplane.clients import records_at
from controlplane.clients.connection import NoResponse
from controlplane.clients.records_at import read_records_at
from controlplane.domain.record_scan import Chunk, FetchRange, PartitionProblem

RECORD = Record(5, 1_000, b"k", b"v", (("h", b"1"),))


class FakeReader:
    """`chunks`: the responses of a partition, in order; the last one repeats."""

    chunks: dict[int, list[Chunk]] = {}
    silent = False

    def __init__(self, topic: str, seconds: float, fetch_bytes_max: int) -> None:
        self.waiting = {p: list(own) for p, own in self.chunks.items()}

    def __enter__(self) -> FakeReader:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def load_leaders(self) -> None:
        if self.silent:
            raise NoResponse("no broker")

    def fetch(self, ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
        ((partition, wanted),) = ranges.items()
        assert wanted.upto == wanted.offset + 1
        own = self.waiting[partition]
        return {partition: own.pop(0) if len(own) > 1 else own[0]}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(records_at, "RecordReaderClient", FakeReader)
    monkeypatch.setattr(FakeReader, "silent", False)
    return FakeReader


def test_records_are_found_or_missing(reader: Any) -> None:
    reader.chunks = {
        0: [Chunk(5), Chunk(6, [RECORD], 90, end=9)],  # the leader has moved
        1: [Chunk(7, size=10, end=9)],  # a marker of a transaction
        2: [Chunk(5, size=200, end=9)],  # compacted: the next batch begins later
        3: [Chunk(5, end=3)],  # after the end
        4: [Chunk(8, log_start=8)],  # retention
    }
    found = read_records_at("t", [(p, 5) for p in reader.chunks])
    assert list(found.records) == [(0, 5)] and found.unread == set()
    assert (found.records[0, 5].value, found.records[0, 5].headers) == (b"v", (("h", b"1"),))


def test_a_record_that_was_not_read_in_time_is_unread(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.chunks = {0: [Chunk(5, problem=PartitionProblem.NO_LEADER)], 1: [Chunk(5)]}
    assert read_records_at("t", [(0, 5), (1, 5)], 0.05).unread == {(0, 5), (1, 5)}
    reader.chunks = {0: [Chunk(6, [RECORD], 90, end=9)]}
    monkeypatch.setattr(records_at, "REQUEST_BYTES_MAX", 0)
    assert read_records_at("t", [(0, 5)]).unread == {(0, 5)}
    reader.silent = True
    assert read_records_at("t", [(0, 5)]).unread == {(0, 5)}
