"""Dead letters of share groups: the failed record is sent, at most once, and never another record in its place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from controlplane.domain.dead_letters import DeadLetterFilters, ResendTarget
from controlplane.domain.produce import NewRecord
from controlplane.domain.record_query import RecordQuery
from controlplane.models import Change, MaskingRule, SentDeadLetter, Topic
from controlplane.services import Rejected
from controlplane.services import dead_letters as services
from controlplane.services.dead_letter_batches import ResendResult
from tests.unit.controlplane.dead_letter_responses import (
    DLQ,
    DeadLetterResponses,
    patch_share_responses,
    share_letter,
    user_with_permissions,
    with_retry_topic,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TOPIC = ResendTarget.TOPIC


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadLetterResponses:
    return patch_share_responses(monkeypatch, world)


@pytest.fixture
def olga(responses: DeadLetterResponses) -> Any:
    return user_with_permissions("olga")


def send(who: Any, *offsets: int, edited: NewRecord | None = None) -> ResendResult:
    result = services.send(who, DLQ, [(0, o) for o in offsets], target=TOPIC, edited=edited, comment="fixed")
    assert result is not None
    return result


def test_the_failed_record_is_written_to_its_partition_with_its_headers(
    olga: Any, responses: DeadLetterResponses
) -> None:
    result = send(olga, 0, 1)
    assert (result.target, result.sent, result.problems) == ("orders", 2, [])
    (topic, sent), _ = responses.written
    assert (topic, sent.key, sent.value, sent.partition, sent.timestamp_ms) == ("orders", b"k30", b"v30", 1, None)
    assert sent.headers == (("trace", b"\xff"), ("x-retry-resent", b"dlq.tasks-0@0"))
    change = Change.objects.get(verb="dead_letters.send")
    assert (change.actor, change.object_name, change.outcome) == ("olga", DLQ, "confirmed")


def test_a_deleted_record_is_written_from_its_copy_or_rejected(olga: Any, responses: DeadLetterResponses) -> None:
    result = send(olga, 2, 3, 5, 77)
    assert (result.sent, result.refused, result.missing) == (1, 2, 1)
    assert responses.written[0][1].headers == (("x-retry-resent", b"dlq.tasks-0@2"),)
    assert responses.written[0][1].value == b"v32"
    assert "does not name a failed record" in result.problems[0]
    assert "orders-1@33 has no record any more" in result.problems[1]
    edited = NewRecord(b"k33", b"v", (), 1)
    assert send(olga, 3, edited=edited).sent == 1, "an edit needs no record"


def test_a_record_is_sent_one_time_also_for_several_dead_letters(olga: Any, responses: DeadLetterResponses) -> None:
    """A new leader writes some dead letters again, and two groups can fail at the same record."""
    responses.letters[0] += [share_letter(6, 30), share_letter(7, 30, group="mail")]
    responses.letters[1] = [share_letter(0, 30)]
    assert (send(olga, 0, 6).already, send(olga, 7).already, len(responses.written)) == (1, 1, 1)
    other = services.send(olga, DLQ, [(1, 0)], target=TOPIC, comment="fixed")
    assert other is not None and other.already == 1 and len(responses.written) == 1
    topic_id = Topic.objects.get(name="orders").id
    assert list(SentDeadLetter.objects.values_list("source", flat=True)) == [f"{topic_id}:1@30"]


def test_a_topic_that_was_created_again_has_other_records(olga: Any, responses: DeadLetterResponses) -> None:
    Topic.objects.filter(name="orders").update(created_at=timezone.now() + timedelta(days=2))
    result = send(olga, 0, 1)
    assert (result.sent, result.refused) == (1, 1) and responses.written[0][1].value == b"v31", "its copy"
    responses.originals["bills", 0, 7] = NewRecord(b"k", b"other")
    responses.letters[0].append(share_letter(8, 7, topic="bills", partition="0", copy=True))
    assert send(olga, 8).sent == 1 and responses.written[-1][1].value == b"v7", (
        "the copy says that it is another record"
    )


def test_all_matching_dead_letters_are_sent_to_their_topics(olga: Any, responses: DeadLetterResponses) -> None:
    filters = DeadLetterFilters(source_begins="orders-1@")
    found = services.dead_letters(olga, DLQ, RecordQuery(DLQ, filters=filters, all_partitions=True))
    assert found is not None and found.kind == "share_group" and len(found.rows) == 4
    row = found.rows[-1]  # the newest is first
    assert (row.cause.group, row.cause.attempts, row.cause.source) == ("workers", 5, "orders-1@30")
    assert row.cause.error == "Offset delivery count exceeded the threshold." and row.failed is not None
    assert (row.failed.topic, row.failed.partition, row.failed.offset) == ("orders", 1, 30)
    result = services.send_matching(olga, DLQ, RecordQuery(DLQ, all_partitions=True), target=TOPIC, comment="fixed")
    assert result is not None and (result.target, result.sent, result.refused) == ("bills, orders", 4, 2)
    again = services.send_matching(olga, DLQ, RecordQuery(DLQ, all_partitions=True), target=TOPIC, comment="fixed")
    assert again is not None and (again.sent, again.already) == (0, 4) and len(responses.written) == 4


def test_a_dead_letter_that_cannot_be_sent_has_the_reason(olga: Any, responses: DeadLetterResponses) -> None:
    responses.unread = {(1, 30)}
    assert "could not be read" in send(olga, 0).problems[0]
    responses.letters[0] += [share_letter(8, 1, topic="gone"), share_letter(9, 1, topic="__consumer_offsets")]
    assert "no topic 'gone'" in send(olga, 8).problems[0]
    with pytest.raises(PermissionDenied, match="internal"):
        send(olga, 9)
    rejected = services.send(olga, DLQ, [(0, 0)], target=ResendTarget.RETRY, comment="fixed")
    assert rejected is not None and rejected.refused == 1 and "orders has no retry topic" in rejected.problems[0]
    with pytest.raises(Rejected, match="does not name"):
        services.record_to_resend(olga, DLQ, 0, 5)
    assert not responses.written


def test_the_record_is_read_for_an_edit(olga: Any, responses: DeadLetterResponses) -> None:
    found = services.record_to_resend(olga, DLQ, 0, 0)
    assert found is not None and (found.record.value, found.to, found.to_partition) == (b"v30", "orders", 1)
    gone = services.record_to_resend(olga, DLQ, 0, 3)
    assert gone is not None and gone.record == NewRecord()


def test_each_source_topic_needs_permissions(responses: DeadLetterResponses) -> None:
    vera = user_with_permissions("vera", staff=False)
    MaskingRule.objects.create(topics="bills", target="value", field="$.card")
    assert send(vera, 0).sent == 1
    with pytest.raises(PermissionDenied, match="bills: Masking rules"):
        send(vera, 1, 4)
    assert len(responses.written) == 1


# -- to the share group that failed ------------------------------------------------------------------------------------------
@pytest.fixture
def responses_with_retry_topic(responses: DeadLetterResponses, world: World) -> DeadLetterResponses:
    with_retry_topic(world)
    return responses


def retry(who: Any, *offsets: int, edited: NewRecord | None = None) -> ResendResult:
    places = [(0, o) for o in offsets]
    result = services.send(who, DLQ, places, target=ResendTarget.RETRY, edited=edited, comment="fixed")
    assert result is not None
    return result


def test_the_failed_record_is_written_to_the_retry_topic_for_its_share_group(
    olga: Any, responses_with_retry_topic: DeadLetterResponses
) -> None:
    result = retry(olga, 0, 1, 4)
    assert (result.target, result.sent, result.refused) == ("orders.retry", 2, 1)
    assert "bills has no retry topic" in result.problems[0]
    (topic, sent), (_, other) = responses_with_retry_topic.written
    assert (topic, sent.key, sent.value, sent.partition, sent.timestamp_ms) == ("orders.retry", b"k30", b"v30", 1, None)
    assert sent.headers == (
        ("trace", b"\xff"),
        ("x-retry-group", b"workers"),
        ("x-retry-source", b"orders-1@30"),
        ("x-retry-resent", b"dlq.tasks-0@0"),
    )
    assert ("x-retry-group", b"mail") in other.headers


def test_each_share_group_that_failed_gets_the_record_one_time(
    olga: Any, responses_with_retry_topic: DeadLetterResponses
) -> None:
    long = "g" * 240
    responses_with_retry_topic.letters[0] += [
        share_letter(6, 30),
        share_letter(7, 30, group="mail"),
        share_letter(8, 30, group=long),
    ]
    assert (retry(olga, 0, 6).already, retry(olga, 7).sent, retry(olga, 8).sent) == (1, 1, 1)
    assert send(olga, 7).sent == 1, "another target"
    groups = [dict(r.headers).get("x-retry-group") for _, r in responses_with_retry_topic.written]
    assert groups == [b"workers", b"mail", long.encode(), None]


def test_an_edited_record_goes_to_the_share_group_too(
    olga: Any, responses_with_retry_topic: DeadLetterResponses
) -> None:
    edited = NewRecord(b"k30", b"corrected", (("x-retry-group", b"other"), ("a", b"1")), 1)
    assert retry(olga, 0, edited=edited).sent == 1
    ((topic, sent),) = responses_with_retry_topic.written
    assert (topic, sent.value) == ("orders.retry", b"corrected")
    assert [h for h in sent.headers if h[0] == "x-retry-group"] == [("x-retry-group", b"workers")]


def test_a_record_that_failed_in_the_retry_topic_returns_to_it(
    olga: Any, responses_with_retry_topic: DeadLetterResponses
) -> None:
    responses_with_retry_topic.letters[0].append(share_letter(6, 3, topic="orders.retry"))
    first = (("x-retry-group", b"mail"), ("x-retry-source", b"orders-1@2"), ("x-retry-count", b"3"))
    responses_with_retry_topic.originals["orders.retry", 1, 3] = NewRecord(b"k", b"v", first)
    assert retry(olga, 6).sent == 1
    ((topic, sent),) = responses_with_retry_topic.written
    assert topic == "orders.retry" and dict(sent.headers) == {
        "x-retry-group": b"workers",
        "x-retry-source": b"orders-1@2",
        "x-retry-resent": b"dlq.tasks-0@6",
    }


def test_a_dead_letter_without_a_share_group_is_rejected(
    olga: Any, responses_with_retry_topic: DeadLetterResponses
) -> None:
    responses_with_retry_topic.letters[0].append(share_letter(6, 30, group=""))
    result = retry(olga, 6)
    assert (
        result.refused == 1
        and "does not name a share group" in result.problems[0]
        and not responses_with_retry_topic.written
    )
