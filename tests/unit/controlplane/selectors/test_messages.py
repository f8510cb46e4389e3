"""Reads of records: ranges by start position, partitions by key, problems, percent, tokens. The reader is a log in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import pytest

from brokerd.wire.records import Record
from controlplane.clients.connection import NoResponse
from controlplane.domain.errors import Rejected
from controlplane.domain.key_partition import Partitioner, key_partitions
from controlplane.domain.masking import MaskRule, MaskTarget, RecordRenderer
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.domain.record_scan import Chunk, FetchRange, PartitionProblem
from controlplane.models import Topic
from controlplane.selectors import messages
from controlplane.selectors.messages import MessageRead, masked_matcher, message_line, message_row
from controlplane.services import topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db

PARTITIONS = 12
RAW = RecordRenderer("flights")


def read_messages(query: RecordQuery, resume: str = "") -> MessageRead:
    return messages.read_messages(query, resume, renderer=RAW, plain=RAW)


class LogReader:
    """Each partition has the offsets 10 to 99, with the offset as timestamp in seconds."""

    no_response = False
    problems: dict[int, PartitionProblem]
    log_problems: dict[int, PartitionProblem]

    def __init__(self, topic: str, seconds: float) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def load_leaders(self) -> None:
        if self.no_response:
            raise NoResponse("nobody")

    def log_ranges(self, partitions: Iterable[int]) -> tuple[dict[int, tuple[int, int]], dict[int, PartitionProblem]]:
        wanted = set(partitions)
        lost = {p: e for p, e in self.log_problems.items() if p in wanted}
        return dict.fromkeys(wanted - set(lost), (10, 100)), lost

    def offsets_at(self, partitions: Iterable[int], timestamp_ms: int) -> tuple[dict[int, int], dict[int, Any]]:
        at = -(-timestamp_ms // 1000)
        return dict.fromkeys(partitions, at if at < 100 else -1), {}

    def fetch(self, ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
        return {
            p: Chunk(r.offset, problem=self.problems[p])
            if p in self.problems
            else Chunk(r.upto, [Record(o, o * 1000, b"UA", b"v%d" % o) for o in range(r.offset, r.upto)], 10)
            for p, r in ranges.items()
        }


@pytest.fixture(autouse=True)
def reader(world: World, monkeypatch: pytest.MonkeyPatch) -> type[LogReader]:
    world.topic("flights", *[(1, 2)] * PARTITIONS)
    monkeypatch.setattr(LogReader, "problems", {}, raising=False)
    monkeypatch.setattr(LogReader, "log_problems", {}, raising=False)
    monkeypatch.setattr(messages, "RecordReaderClient", LogReader)
    return LogReader


def query(
    start: StartPosition = StartPosition.EARLIEST, partitions: tuple[int, ...] = (0, 1), **more: Any
) -> RecordQuery:
    return RecordQuery("flights", partitions, start, **more)


def offsets_and_partitions(query: RecordQuery, resume: str = "") -> list[tuple[int, int]]:
    return [(r.offset, r.partition) for r in read_messages(query, resume).rows]


def test_start_positions() -> None:
    assert offsets_and_partitions(query(limit=3)) == [(10, 0), (10, 1), (11, 0)]
    assert offsets_and_partitions(query(StartPosition.LATEST, limit=3)) == [(99, 0), (99, 1), (98, 0)]
    assert offsets_and_partitions(query(StartPosition.OFFSET, offset=50, limit=2)) == [(50, 0), (50, 1)]
    assert offsets_and_partitions(query(StartPosition.TIMESTAMP, timestamp_ms=60_500, limit=2)) == [(61, 0), (61, 1)]
    assert offsets_and_partitions(query(StartPosition.TIMESTAMP, timestamp_ms=200_000)) == []


def test_minutes_before_now_mean_the_same_time_on_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages.time, "time_ns", lambda: (60 + 300) * 10**9)
    asked = query(StartPosition.MINUTES, minutes=5, limit=2)
    first = read_messages(asked)
    assert [(r.offset, r.partition) for r in first.rows] == [(60, 0), (60, 1)]
    monkeypatch.setattr(messages.time, "time_ns", lambda: 10**18)
    assert offsets_and_partitions(asked, first.resume) == [(61, 0), (61, 1)]


def test_an_offset_outside_the_log_has_a_note() -> None:
    read = read_messages(query(StartPosition.OFFSET, partitions=(0,), offset=3, limit=1))
    assert read.rows[0].offset == 10
    assert read.partitions[0].note == "Offset 3 is outside the log [10, 100); read from 10."


@pytest.mark.parametrize("start", [StartPosition.EARLIEST, StartPosition.LATEST])
def test_pages_count_on_to_the_end(start: StartPosition) -> None:
    asked = query(start, limit=100, filters=RecordFilters(value_contains="v1"))
    whole = read_messages(asked)
    assert (whole.scanned, whole.found, whole.percent, whole.complete, whole.resume) == (180, 20, 100.0, True, "")
    assert whole.stopped == "end" and whole.note == "All records of the range were read."
    part = query(start, limit=7, filters=RecordFilters(value_contains="v1"))
    first = read_messages(part)
    assert (first.found, first.complete, first.stopped) == (7, False, "limit") and 0 < first.percent < 100
    second = read_messages(part, first.resume)
    third = read_messages(part, second.resume)
    assert (third.scanned, third.found, third.percent, third.complete) == (180, 20, 100.0, True)
    assert first.rows + second.rows + third.rows == whole.rows


def test_a_key_is_read_from_the_partitions_of_the_default_partitioners() -> None:
    candidates = key_partitions(b"UA", PARTITIONS)
    read = read_messages(query(partitions=(), filters=RecordFilters(key="UA")))
    assert {p.partition for p in read.partitions} == set(candidates.values())
    assert {k.partitioner: k.partition for k in read.key_partitions} == candidates
    assert set(candidates) == set(Partitioner)
    everywhere = read_messages(query(partitions=(), filters=RecordFilters(key="UA"), all_partitions=True))
    assert len(everywhere.partitions) == PARTITIONS and everywhere.key_partitions == read.key_partitions
    chosen = read_messages(query(partitions=(3,), filters=RecordFilters(key="UA")))
    assert [p.partition for p in chosen.partitions] == [3]


def test_a_key_is_also_read_from_its_partitions_before_partitions_were_added() -> None:
    """A search for a record from before the addition ended with `Complete` and found nothing."""
    row = Topic.objects.get(name="flights")
    Topic.objects.filter(id=row.id).update(partitions=5)
    topics.alter_topic("flights", partitions=PARTITIONS, actor="alice")
    today, before = key_partitions(b"UA", PARTITIONS), key_partitions(b"UA", 5)
    read = read_messages(query(partitions=(), filters=RecordFilters(key="UA")))
    assert {p.partition for p in read.partitions} == {*today.values(), *before.values()}
    assert [(k.partition, k.earlier_count) for k in read.key_partitions] == [
        *((p, None) for p in today.values()),
        *((p, 5) for p in before.values()),
    ]


def test_problems_belong_to_their_partition_and_are_tried_again(reader: type[LogReader]) -> None:
    reader.log_problems[0] = PartitionProblem.NO_LEADER
    reader.problems[2] = PartitionProblem.LEADER_UNREACHABLE
    asked = query(partitions=(0, 1, 2), limit=500)
    read = read_messages(asked)
    assert {r.partition for r in read.rows} == {1} and not read.complete and read.stopped == "end"
    assert [(p.partition, p.problem, p.start_offset) for p in read.problems] == [
        (0, "no_leader", None),
        (2, "leader_unreachable", 10),
    ]
    assert read.problems[0].note.startswith("Partition 0 was not read to the end: it has no leader.")
    assert read.note == "2 partitions could not be read to the end."
    reader.log_problems.clear()
    reader.problems.clear()
    later = read_messages(asked, read.resume)
    assert {r.partition for r in later.rows} == {0, 2} and later.complete and later.found == 270


def test_without_a_broker_every_partition_has_a_problem_and_the_token_stays(reader: type[LogReader]) -> None:
    asked = query(limit=5)
    token = read_messages(asked).resume
    reader.no_response = True
    nothing = read_messages(asked)
    assert [p.problem for p in nothing.problems] == ["leader_unreachable"] * 2
    assert (nothing.percent, nothing.resume, nothing.complete) == (0.0, "", False)
    kept = read_messages(asked, token)
    reader.no_response = False
    assert offsets_and_partitions(asked, kept.resume) == offsets_and_partitions(asked, token)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (RecordQuery("nope"), "topic"),
        (query(partitions=(PARTITIONS,)), "partitions"),
        (query(limit=0), "limit"),
        (query(filters=RecordFilters(json="$")), "json"),
    ],
)
def test_invalid_queries_are_rejected(asked: RecordQuery, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        read_messages(asked)
    assert rejection.value.field == field


def test_too_many_partitions_need_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PARTITIONS_MAX", 5)
    with pytest.raises(Rejected, match="at most 5"):
        read_messages(query(partitions=()))
    assert {p.partition for p in read_messages(query(partitions=(0, 4))).partitions} == {0, 4}


def test_bytes_that_are_not_text_are_hex() -> None:
    row = message_row(3, Record(7, -1, b"\xff\x00", b"text", (("h", None), ("b", b"\xfe"))), RAW)
    assert (row.key, row.value, row.headers) == ("ff00", "text", [("h", None), ("b", "fe")])
    assert (row.key_bytes, row.value_bytes, row.timestamp_ms) == (2, 4, None)
    assert row.binary == ["key", "header b"]
    assert '"binary": ["key", "header b"]' in message_line("t", row)


def test_a_filter_finds_nothing_in_masked_parts() -> None:
    rules = [MaskRule("*", MaskTarget.VALUE, "$.card"), MaskRule("*", MaskTarget.HEADER, "token")]
    found = Record(0, 0, b"k", b'{"card": "4111", "name": "Ann"}', (("token", b"abc"), ("trace", b"1")))
    for filters, hidden in (
        (RecordFilters(value_contains="4111"), True),
        (RecordFilters(json="$.card == 4111"), True),
        (RecordFilters(header="token=abc"), True),
        (RecordFilters(value_contains="Ann"), False),
        (RecordFilters(json="$.name == Ann"), False),
        (RecordFilters(header="trace=1"), False),
        (RecordFilters(key="k"), False),
    ):
        matcher = filters.matcher()
        assert matcher is not None and matcher(found)
        assert masked_matcher(matcher, RecordRenderer("flights", rules))(found) is not hidden


def test_a_filter_expression_is_evaluated_beside_the_other_filters() -> None:
    read = read_messages(query(filters=RecordFilters(value_contains="v1", expression="offset < 12 && value == 'v11'")))
    assert [(r.offset, r.partition) for r in read.rows] == [(11, 0), (11, 1)] and read.not_evaluated == 0
    failed = read_messages(query(filters=RecordFilters(expression="value.amount > 1"), limit=5))
    assert not failed.rows and failed.not_evaluated == 180
    assert [e.reason for e in failed.evaluation_errors] == ["a field of a value that is not an object"]
    with pytest.raises(Rejected, match="Column 9"):
        read_messages(query(filters=RecordFilters(expression="offset <")))
