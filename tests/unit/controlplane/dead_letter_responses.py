"""A dead letter topic and transactions in memory, for the tests of services, views and REST."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command

from brokerd.wire.records import Record
from controlplane.clients import record_range, records_at, transactional_producer
from controlplane.clients.connection import NoResponse
from controlplane.clients.record_range import RecordRange
from controlplane.clients.records_at import RecordsAt
from controlplane.clients.transactional_producer import TransactionEnd, TransactionMarker, TransactionResult
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.produce import NewRecord, ProducedRecord
from controlplane.domain.record_query import RecordQuery
from controlplane.models import Topic
from controlplane.selectors import messages
from controlplane.selectors.messages import MessageRead, RawRead, message_row
from tests.unit.controlplane.world import World

START_MS = 1_790_000_000_000


class Crash(BaseException):
    """The process ends here."""


class CrashPoint(Enum):
    NEVER = "never"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


@dataclass
class DeadLetterResponses:
    """`letters` by partition. `written`: committed records, (topic, record). `crash`: when the next sending ends its process. `silent`: the next sending
    has no response at that moment. `unreachable`: no marker can be read."""

    letters: dict[int, list[Record]] = field(default_factory=dict)
    written: list[tuple[str, NewRecord]] = field(default_factory=list)
    markers: dict[tuple[str, int], str] = field(default_factory=dict)
    crash: CrashPoint = CrashPoint.NEVER
    silent: CrashPoint = CrashPoint.NEVER
    unreachable: bool = False
    rejection: str = ""
    originals: dict[tuple[str, int, int], NewRecord] = field(default_factory=dict)
    unread: set[tuple[int, int]] = field(default_factory=set)
    starts: dict[int, int] = field(default_factory=dict)

    # -- reading -----------------------------------------------------------------------------------------------------
    def raw(self, query: RecordQuery, resume: str = "") -> RawRead:
        assert query.topic.endswith(".dead") or query.topic.startswith("dlq.")
        matcher = query.matcher()
        after = tuple(map(int, resume.split("@"))) if resume else (-1, -1)
        found = [
            (p, r)
            for p, own in sorted(self.letters.items())
            for r in own
            if (p, r.offset) > after
            and (not query.partitions or p in query.partitions)
            and r.timestamp >= query.since_ms(0)
            and (matcher is None or matcher(r))
        ]
        more = len(found) > query.limit
        found = found[: query.limit]
        following = f"{found[-1][0]}@{found[-1][1].offset}" if more else ""
        return RawRead(
            MessageRead(query.topic, scanned=sum(map(len, self.letters.values())), complete=not more, resume=following),
            found,
        )

    def page(self, query: RecordQuery, resume: str = "", *, renderer: RecordRenderer, plain: Any) -> MessageRead:
        query.check()
        read = self.raw(query, resume)
        return replace(read.summary, rows=[message_row(p, r, renderer) for p, r in read.records])

    def read_range(self, topic: str, partition: int, first: int, last: int, bytes_max: int) -> RecordRange:
        start = self.starts.get(partition, 0)
        records = [
            (r.offset, NewRecord(r.key, r.value, tuple(r.headers), None, r.timestamp))
            for r in self.letters.get(partition, [])
            if max(first, start) <= r.offset <= last
        ]
        return RecordRange(records, start, 100, True)

    def read_records_at(self, topic: str, places: Iterable[tuple[int, int]]) -> RecordsAt:
        chosen = set(places)
        found = {p: r for p in chosen - self.unread if (r := self.originals.get((topic, *p))) is not None}
        return RecordsAt(found, chosen & self.unread)

    # -- transactions ------------------------------------------------------------------------------------------------
    def send_once(
        self, transactional_id: str, topic: str, records: Sequence[NewRecord], marker: TransactionMarker
    ) -> TransactionResult:
        crash, self.crash = self.crash, CrashPoint.NEVER
        silent, self.silent = self.silent, CrashPoint.NEVER
        if crash is CrashPoint.BEFORE_COMMIT:
            raise Crash
        if self.rejection:
            return TransactionResult(TransactionEnd.ABORTED, problem=self.rejection)
        if silent is CrashPoint.BEFORE_COMMIT:
            return TransactionResult(TransactionEnd.UNKNOWN, problem="No response.")
        self.written += [(topic, r) for r in records]
        self.markers[marker.topic, marker.partition] = marker.metadata
        if crash is CrashPoint.AFTER_COMMIT:
            raise Crash
        if silent is CrashPoint.AFTER_COMMIT:
            return TransactionResult(TransactionEnd.UNKNOWN, problem="No response.")
        return TransactionResult(TransactionEnd.COMMITTED, [ProducedRecord(r.partition, 0) for r in records])

    def find_marker(self, transactional_id: str, marker: TransactionMarker) -> bool:
        if self.unreachable:
            raise NoResponse("no coordinator")
        return self.markers.get((marker.topic, marker.partition)) == marker.metadata


def letter(offset: int, group: str | None = "billing", error: str = "timeout of card", count: str = "4") -> Record:
    headers = [("h", b"\xff"), ("x-retry-count", count.encode()), ("x-retry-source", b"orders-0@%d" % (offset + 50))]
    if group is not None:
        headers += [("x-retry-group", group.encode()), ("x-retry-error", error.encode())]
    return Record(offset, START_MS + offset * 1000, f"k{offset}".encode(), f"v{offset}".encode(), tuple(headers))


def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World, topic: str = "orders") -> DeadLetterResponses:
    """A topic with retries. Partition 0 of its dead letter topic has the offsets 1 (group billing), 2 (mail), 5 (no group), partition 1 offset 0."""
    world.topic(topic, (1, 2), (2, 3))
    for name in (f"{topic}.retry", f"{topic}.dead"):
        world.topic(name, (1, 2), (2, 3), configs={"weir.retry.source": topic})
    Topic.objects.filter(name__in=(f"{topic}.retry", f"{topic}.dead")).update(configs={"weir.retry.source": topic})
    first = [letter(1), letter(2, "mail", "bad address"), letter(5, None)]
    return patch_messages(monkeypatch, DeadLetterResponses({0: first, 1: [letter(0)]}))


DLQ, ENABLED = "dlq.tasks", {"errors.deadletterqueue.group.enable": "true"}


def share_letter(
    offset: int, failed: int, *, topic: str = "orders", group: str = "workers", copy: bool = False, partition: str = "1"
) -> Record:
    """A dead letter of a share group for the record at `failed`, written a day from now: after the topics were created."""
    headers = {"topic": topic, "partition": partition, "offset": failed, "group": group, "delivery.count": 5}
    headers["message"] = "Offset rejected by client." if failed % 2 else "Offset delivery count exceeded the threshold."
    named = tuple((f"__dlq.errors.{name}", str(value).encode()) for name, value in headers.items())
    key, value = (f"k{failed}".encode(), f"v{failed}".encode()) if copy else (None, None)
    at_ms = int((time.time() + 86_400) * 1000) + offset
    return Record(offset, at_ms, key, value, named)


def original(failed: int) -> NewRecord:
    headers = (("trace", b"\xff"),)
    return NewRecord(f"k{failed}".encode(), f"v{failed}".encode(), headers, None, START_MS)


def patch_share_responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadLetterResponses:
    """Topics orders (two partitions) and bills, and dead letters of share groups for 30, 31, 32 (removed by retention, with a copy), 33 (removed) of
    orders-1 and 7 of bills-0, and a record without the headers."""
    world.topic("orders", (1, 2), (2, 3))
    world.topic("bills", (1, 2))
    world.topic(DLQ, (1, 2), (2, 3), configs=ENABLED)
    letters = [share_letter(0, 30), share_letter(1, 31, group="mail", copy=True), share_letter(2, 32, copy=True)]
    letters += [share_letter(3, 33), share_letter(4, 7, topic="bills", partition="0"), Record(5, START_MS, b"k", b"v")]
    responses = DeadLetterResponses({0: letters})
    responses.originals = {("orders", 1, o): original(o) for o in (30, 31)} | {("bills", 0, 7): original(7)}
    monkeypatch.setattr(records_at, "read_records_at", responses.read_records_at)
    return patch_messages(monkeypatch, responses)


def with_retry_topic(world: World) -> None:
    """The topic orders of `patch_share_responses` has a retry topic."""
    world.topic("orders.retry", (1, 2), (2, 3))
    Topic.objects.filter(name="orders.retry").update(configs={"weir.retry.source": "orders"})


def patch_messages(monkeypatch: pytest.MonkeyPatch, responses: DeadLetterResponses) -> DeadLetterResponses:
    monkeypatch.setattr(messages, "read_messages", responses.page)
    monkeypatch.setattr(messages, "read_raw", responses.raw)
    monkeypatch.setattr(record_range, "read_range", responses.read_range)
    monkeypatch.setattr(transactional_producer, "send_once", responses.send_once)
    monkeypatch.setattr(transactional_producer, "find_marker", responses.find_marker)
    return responses


def user_with_permissions(name: str, *commands: str, staff: bool = True) -> Any:
    """A user with the permissions of these commands."""
    get_user_model().objects.get_or_create(username=name, defaults={"is_staff": staff})
    for command in commands or ("produce_records", "read_records"):
        call_command(command, name)
    return get_user_model().objects.get(username=name)
