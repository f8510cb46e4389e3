"""The reader of records: leaders and offsets, chunks, aborted transactions, brokers that do not respond or are no longer the leader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import CorruptBatch, Record, build
from controlplane.clients import record_reader
from controlplane.clients.connection import NoResponse
from controlplane.clients.record_reader import (
    ABORT_MARKER,
    BATCH_ROOM_BYTES,
    FETCH_BYTES_FIRST,
    RecordReaderClient,
    committed_records,
)
from controlplane.domain.record_scan import Chunk, FetchRange, PartitionProblem

END = 2**62
COMMIT_MARKER = b"\0\0\0\1"


def batch(first: int, count: int, **options: Any) -> bytes:
    rows = [Record(o, 1_000 + o, b"k%d" % o, b"value " * 20) for o in range(first, first + count)]
    return build(rows, base_offset=first, **options)


def marker(offset: int, key: bytes, producer: int) -> bytes:
    rows = [Record(offset, 0, key, b"\0\0\0\0\0\0")]
    return build(rows, base_offset=offset, producer_id=producer, producer_epoch=0, transactional=True, control=True)


def transactional(first: int, count: int, producer: int) -> bytes:
    return batch(first, count, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


class Brokers:
    """Brokers 1 and 2 lead partitions 0 to 3 in turn; 3 has no leader. `logs`: (first offset, batch) by partition."""

    def __init__(self) -> None:
        self.leaders = {0: 1, 1: 2, 2: 1, 3: -1}
        self.logs: dict[int, list[tuple[int, bytes]]] = {p: [(0, batch(0, 5)), (5, batch(5, 5))] for p in self.leaders}
        self.down: set[int] = set()
        self.errors: dict[int, list[ErrorCode]] = {}
        self.sent: list[tuple[int, ApiKey, Any]] = []

    def connection(self, host: str, port: int, client_id: str = "") -> BrokerConnection:
        return BrokerConnection(self, port)

    def error(self, partition: int) -> ErrorCode:
        waiting = self.errors.get(partition, [])
        return waiting.pop(0) if waiting else ErrorCode.NONE


class BrokerConnection:
    def __init__(self, brokers: Brokers, port: int) -> None:
        self.brokers, self.port = brokers, port

    def close(self) -> None:
        pass

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        if self.port in self.brokers.down:
            raise NoResponse(f"port {self.port}")
        self.brokers.sent.append((self.port, api, body))
        return getattr(self, api.name.lower())(body)

    def metadata(self, body: Any) -> Any:
        r = m.MetadataResponse
        parts = [r.MetadataResponsePartition(0, i, b, 0, [b], [b], []) for i, b in self.brokers.leaders.items()]
        nodes = [r.MetadataResponseBroker(b, "h", b) for b in (1, 2)]
        return r(brokers=nodes, topics=[r.MetadataResponseTopic(0, body.topics[0].name, partitions=parts)])

    def list_offsets(self, body: Any) -> Any:
        r = m.ListOffsetsResponse
        offsets = {-1: 10, -2: 2, 77: -1}
        parts = [
            r.ListOffsetsPartitionResponse(
                p.partition_index, self.brokers.error(p.partition_index), offset=offsets.get(p.timestamp, 6)
            )
            for p in body.topics[0].partitions
        ]
        return r(topics=[r.ListOffsetsTopicResponse("t", parts)])

    def fetch(self, body: Any) -> Any:
        parts = []
        for n, wanted in enumerate(body.topics[0].partitions):
            data = b""
            for first, stored in self.brokers.logs[wanted.partition]:
                # As a broker: one batch above the limit is sent only for the first partition of a request.
                fits = len(data) + len(stored) <= wanted.partition_max_bytes or (not data and n == 0)
                if first + 5 > wanted.fetch_offset and fits:
                    data += stored
            code = self.brokers.error(wanted.partition)
            parts.append(
                m.FetchResponse.PartitionData(
                    wanted.partition, code, 10, 10, 4, aborted_transactions=[], records=data if not code else b""
                )
            )
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse("t", partitions=parts)])


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(record_reader, "KafkaConnection", brokers.connection)
    monkeypatch.setattr(record_reader, "LEADER_RETRY_SECONDS", 0.0)
    settings.WEIR = replace(settings.WEIR, bootstrap="h:1,h:2")
    return brokers


def reader() -> RecordReaderClient:
    client = RecordReaderClient("t", 60)
    client.load_leaders()
    return client


def offsets(chunk: Chunk) -> list[int]:
    return [r.offset for r in chunk.records]


def test_ranges_and_offsets_by_partition_with_the_problems_of_the_others(brokers: Brokers) -> None:
    client = reader()
    assert client.log_ranges([0, 1, 2, 3, 9]) == (
        {0: (2, 10), 1: (2, 10), 2: (2, 10)},
        {3: PartitionProblem.NO_LEADER, 9: PartitionProblem.NO_PARTITION},
    )
    assert client.offsets_at([0, 1], 500) == ({0: 6, 1: 6}, {})
    assert client.offsets_at([0], 77) == ({0: -1}, {})
    brokers.errors[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert client.offsets_at([0, 1], 500) == ({1: 6}, {0: PartitionProblem.DENIED})


def test_a_fetch_has_one_request_per_leader_and_reads_only_the_range(brokers: Brokers) -> None:
    client = reader()
    before = len(brokers.sent)
    chunks = client.fetch({0: FetchRange(3, END), 1: FetchRange(0, 7), 2: FetchRange(9, END)})
    assert [(port, api) for port, api, _ in brokers.sent[before:]] == [(1, ApiKey.FETCH), (2, ApiKey.FETCH)]
    assert (
        offsets(chunks[0]) == list(range(3, 10)) and offsets(chunks[1]) == list(range(7)) and offsets(chunks[2]) == [9]
    )
    assert chunks[0].next_offset == 10 and (chunks[0].log_start, chunks[0].end) == (4, 10)
    assert all(body.isolation_level == 1 for _, api, body in brokers.sent if api is ApiKey.FETCH)


def test_a_broker_that_does_not_respond_costs_its_partitions_only(brokers: Brokers) -> None:
    client = reader()
    brokers.down.add(2)
    chunks = client.fetch({0: FetchRange(0, END), 1: FetchRange(0, END), 3: FetchRange(0, END)})
    assert len(chunks[0].records) == 10
    assert chunks[1].problem is PartitionProblem.LEADER_UNREACHABLE
    assert chunks[3].problem is PartitionProblem.NO_LEADER
    brokers.down.clear()
    assert client.fetch({1: FetchRange(0, END)})[1].problem is PartitionProblem.LEADER_UNREACHABLE, "not called again"


def test_without_any_broker_the_leaders_are_unknown(brokers: Brokers) -> None:
    brokers.down |= {1, 2}
    with pytest.raises(NoResponse):
        reader()


def test_a_moved_leader_is_found_for_the_next_fetch(brokers: Brokers) -> None:
    client = reader()
    brokers.errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    brokers.leaders[0] = 2
    assert client.fetch({0: FetchRange(0, END)})[0] == Chunk(0)
    assert len(client.fetch({0: FetchRange(0, END)})[0].records) == 10
    assert brokers.sent[-1][0] == 2


def test_an_offset_outside_the_log_is_a_gap(brokers: Brokers) -> None:
    client = reader()
    brokers.errors[0] = [ErrorCode.OFFSET_OUT_OF_RANGE] * 2
    assert client.fetch({0: FetchRange(1, 50)})[0] == Chunk(4, log_start=4)
    assert client.fetch({0: FetchRange(20, 50)})[0] == Chunk(50, log_start=4)


def test_a_batch_above_the_limit_is_fetched_alone(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "CHUNK_BYTES_MIN", 100)
    monkeypatch.setattr(record_reader, "FETCH_BYTES_FIRST", 200)
    client = reader()
    chunks = client.fetch({0: FetchRange(0, END), 2: FetchRange(0, END)})
    assert chunks[0].next_offset == 5 and chunks[2].next_offset == 5


def test_records_of_aborted_transactions_and_markers_are_left_out() -> None:
    data = (
        transactional(0, 2, 7)
        + transactional(2, 2, 8)
        + batch(4, 1)
        + marker(5, ABORT_MARKER, 7)
        + marker(6, COMMIT_MARKER, 8)
        + transactional(7, 1, 7)
        + marker(8, COMMIT_MARKER, 7)
    )
    aborted = [m.FetchResponse.AbortedTransaction(7, 0)]
    records, following, _ = committed_records(data, FetchRange(0, END), aborted)
    assert [r.offset for r in records] == [2, 3, 4, 7] and following == 9


def test_a_damaged_batch_ends_the_chunk_before_it() -> None:
    damaged = bytearray(batch(5, 5, compression=4))
    damaged[70:80] = b"\xff" * 10
    records, following, _ = committed_records(batch(0, 5) + bytes(damaged), FetchRange(0, END), ())
    assert len(records) == 5 and following == 5
    with pytest.raises(CorruptBatch):
        committed_records(bytes(damaged), FetchRange(5, END), ())


def test_a_chunk_says_how_many_of_its_bytes_are_before_the_end_of_the_range(brokers: Brokers) -> None:
    chunk = reader().fetch({0: FetchRange(0, 3)})[0]
    assert chunk.size == len(batch(0, 5)) + len(batch(5, 5)) and chunk.read_size == len(batch(0, 5))


def test_a_fetch_asks_for_the_estimated_bytes_of_its_range(brokers: Brokers) -> None:
    client = reader()
    for size, requested in (
        (None, FETCH_BYTES_FIRST),
        (1_000, 1_250 + BATCH_ROOM_BYTES),
        (10**9, 4 * FETCH_BYTES_FIRST),
    ):
        client.fetch({0: FetchRange(0, 7, size)})
        assert brokers.sent[-1][2].topics[0].partitions[0].partition_max_bytes == requested


def test_a_renewed_reader_asks_again(brokers: Brokers) -> None:
    client = RecordReaderClient("t", 60)
    client.load_leaders()
    brokers.down = {2}
    assert client.fetch({1: FetchRange(0, END)})[1].problem is PartitionProblem.LEADER_UNREACHABLE
    brokers.down = set()
    assert client.fetch({1: FetchRange(0, END)})[1].problem is PartitionProblem.LEADER_UNREACHABLE
    client.renew(60)
    assert offsets(client.fetch({1: FetchRange(0, END)})[1])
    client.renew(0)
    assert client.fetch({1: FetchRange(0, END)})[1].problem is PartitionProblem.LEADER_UNREACHABLE
