"""Producing and copying: permission, rejections before a record is sent, and the audit row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.management import call_command

from controlplane.clients.connection import NoResponse
from controlplane.clients.record_range import RecordRange
from controlplane.domain.produce import CopyTimestamp, NewRecord, ProducedRecord
from controlplane.models import Change, MaskingRule, ObservedPartition
from controlplane.services import Rejected, produce
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db

SECRET = b"secret value"
RECORD = NewRecord(b"order-1", SECRET, [("token", b"secret header")])


@pytest.fixture
def user(world: World) -> Any:
    world.topic("orders", (1, 2), (2, 1))
    world.topic("copies", (1, 2))
    get_user_model().objects.create_user("alice", is_staff=True)
    for command in ("produce_records", "read_records"):
        call_command(command, "alice")
    return get_user_model().objects.get()


class FakeProducer:
    """Instead of brokers: the records that were sent, and the outcome of each."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.outcome = ProducedRecord(0, 41)
        self.source = RecordRange([], 0, 10, True)
        self.rows_before = 0

    def produce(self, topic: str, records: Sequence[NewRecord]) -> list[ProducedRecord]:
        self.rows_before = Change.objects.filter(outcome="pending").count()
        self.records += records
        return [replace(self.outcome, offset=41 + n) for n, _ in enumerate(records)]

    def read_range(self, topic: str, partition: int, first: int, last: int, bytes_max: int) -> RecordRange:
        return self.source


@pytest.fixture
def fake_producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    double = FakeProducer()
    monkeypatch.setattr(produce.producer, "produce", double.produce)
    monkeypatch.setattr(produce.record_range, "read_range", double.read_range)
    return double


def test_the_result_has_partition_and_offset_of_each_record(user: Any, fake_producer: FakeProducer) -> None:
    result = produce.produce_record(user, "orders", RECORD, count=3)
    assert fake_producer.records == [RECORD] * 3
    assert (result.written, [r.offset for r in result.records]) == (3, [41, 42, 43])


def test_the_audit_row_is_written_before_and_has_no_value(user: Any, fake_producer: FakeProducer) -> None:
    produce.produce_record(user, "orders", RECORD, comment="test data")
    change = Change.objects.get()
    assert fake_producer.rows_before == 1
    assert (change.verb, change.object_name, change.outcome, change.comment) == (
        "records.produce",
        "orders",
        "confirmed",
        "test data",
    )
    assert change.detail == "1 written. partition 0: offsets 41 to 41."
    assert change.after == {
        "records": 1,
        "partition": None,
        "key": "order-1",
        "key_bytes": 7,
        "value_bytes": 12,
        "headers": ["token"],
    }
    assert "secret" not in f"{change.after}{change.detail}"


def test_a_masked_key_is_not_in_the_audit(user: Any, fake_producer: FakeProducer) -> None:
    MaskingRule.objects.create(topics="*", target="key", created_by="root")
    produce.produce_record(user, "orders", RECORD)
    assert "order-1" not in str(Change.objects.get().after)


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (ProducedRecord(0, None, "The record is larger than max.message.bytes."), "refused"),
        (ProducedRecord(None, None, "No acknowledgement.", unknown=True), "unknown"),
    ],
)
def test_the_outcome_of_records_that_were_not_acknowledged(
    user: Any, fake_producer: FakeProducer, outcome: ProducedRecord, word: str
) -> None:
    fake_producer.outcome = outcome
    result = produce.produce_record(user, "orders", RECORD)
    assert result.written == 0 and result.problems == [outcome.problem]
    change = Change.objects.get()
    assert change.outcome == word and outcome.problem in change.detail


def test_producing_needs_its_permission(user: Any, fake_producer: FakeProducer) -> None:
    call_command("produce_records", "alice", "--revoke")
    fresh = get_user_model().objects.get()
    for act in (
        lambda: produce.produce_record(fresh, "orders", RECORD),
        lambda: produce.copy_records(fresh, "orders", 0, 0, 1, topic="copies"),
        lambda: produce.preview_copy(fresh, "orders", 0, 0, 1, topic="copies"),
    ):
        with pytest.raises(PermissionDenied, match="produce_records"):
            act()
    assert fake_producer.records == []
    assert [c.outcome for c in Change.objects.all()] == ["refused"] * 3


@pytest.mark.parametrize(
    ("topic", "partition", "reason"),
    [
        ("__consumer_offsets", None, "Only brokers write to it"),
        ("missing", None, "There is no topic 'missing'"),
        ("orders", 2, "partitions 0 to 1"),
        ("orders", 1, "orders-1 has no leader"),
    ],
)
def test_a_topic_that_cannot_be_written_is_rejected(
    user: Any, fake_producer: FakeProducer, topic: str, partition: int | None, reason: str
) -> None:
    ObservedPartition.objects.filter(topic__name="orders", index=1).update(leader=None)
    with pytest.raises(Rejected, match=reason):
        produce.produce_record(user, topic, replace(RECORD, partition=partition))
    change = Change.objects.get()
    assert fake_producer.records == [] and change.outcome == "refused" and reason in change.detail


def test_a_topic_without_any_leader_is_rejected(user: Any, fake_producer: FakeProducer) -> None:
    ObservedPartition.objects.update(leader=None)
    with pytest.raises(Rejected, match="Topic orders has no leader"):
        produce.produce_record(user, "orders", RECORD)


def record_range(*offsets: int) -> RecordRange:
    records = [(o, NewRecord(b"k", b"v%d" % o, (("h", None),), None, 1000 + o)) for o in offsets]
    return RecordRange(records, 2, 9, True)


@pytest.mark.parametrize(("timestamp", "at"), [(CopyTimestamp.ORIGINAL, 1004), (CopyTimestamp.NOW, None)])
def test_a_copy_keeps_key_value_and_headers(
    user: Any, fake_producer: FakeProducer, timestamp: CopyTimestamp, at: int | None
) -> None:
    fake_producer.source = record_range(4)
    result = produce.copy_records(user, "orders", 1, 4, 4, topic="copies", to_partition=0, timestamp=timestamp)
    assert fake_producer.records == [NewRecord(b"k", b"v4", (("h", None),), 0, at)]
    assert result.written == 1
    after = Change.objects.get().after
    assert after["source"] == "orders-1" and after["records"] == 1 and "v4" not in str(after)


def test_a_preview_counts_and_writes_nothing(user: Any, fake_producer: FakeProducer) -> None:
    fake_producer.source = record_range(4, 6)
    preview = produce.preview_copy(user, "orders", 0, 3, 8, topic="copies")
    assert (preview.records, preview.bytes, preview.first_offset, preview.last_offset) == (2, 8, 4, 6)
    assert (preview.start_offset, preview.end_offset, preview.complete) == (2, 9, True)
    assert fake_producer.records == [] and not Change.objects.exists()


def test_a_copy_that_cannot_be_read_is_rejected(
    user: Any, fake_producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source, reason in (
        (record_range(), "has no records"),
        (replace(record_range(4), complete=False), "too large"),
    ):
        fake_producer.source = source
        with pytest.raises(Rejected, match=reason):
            produce.copy_records(user, "orders", 0, 3, 8, topic="copies")

    def raise_no_response(*_: Any) -> RecordRange:
        raise NoResponse("no leader")

    monkeypatch.setattr(produce.record_range, "read_range", raise_no_response)
    with pytest.raises(Rejected, match="could not be read: no leader"):
        produce.copy_records(user, "orders", 0, 3, 8, topic="copies")
    with pytest.raises(Rejected, match="orders-7 does not exist"):
        produce.copy_records(user, "orders", 7, 3, 8, topic="copies")
    assert fake_producer.records == []


def test_a_copy_shows_nothing_that_its_user_may_not_read(user: Any, fake_producer: FakeProducer) -> None:
    """A copy of a record into a topic without masking rules would otherwise show its masked fields."""
    fake_producer.source = record_range(4)
    call_command("read_records", "alice", "--revoke")
    with pytest.raises(PermissionDenied, match="read_records"):
        produce.copy_records(get_user_model().objects.get(), "orders", 0, 4, 4, topic="copies")
    call_command("read_records", "alice")
    MaskingRule.objects.create(topics="orders", target="value", field="$.card", created_by="root")
    get_user_model().objects.update(is_staff=False)
    with pytest.raises(PermissionDenied, match="Masking rules"):
        produce.copy_records(get_user_model().objects.get(), "orders", 0, 4, 4, topic="copies")
    with pytest.raises(PermissionDenied, match="internal topics"):
        produce.copy_records(get_user_model().objects.get(), "__consumer_offsets", 0, 4, 4, topic="copies")
    assert fake_producer.records == []
