"""Dead letters are sent again at most once: repeated, by two operators, over crashes at each step. And what is rejected."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from controlplane.domain.dead_letters import DeadLetterFilters, ResendTarget
from controlplane.domain.produce import NewRecord
from controlplane.domain.record_query import RecordQuery
from controlplane.models import Change, DeadLetterBatch, MaskingRule, SentDeadLetter
from controlplane.selectors.dead_letters import dead_letter_topic
from controlplane.services import Rejected
from controlplane.services import dead_letters as services
from controlplane.services.dead_letters import ResendResult
from tests.unit.controlplane.dead_answers import Crash, CrashPoint, DeadAnswers, answering, letter, permitted
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TOPIC, RETRY = ResendTarget.TOPIC, ResendTarget.RETRY


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadAnswers:
    return answering(monkeypatch, world)


@pytest.fixture
def olga(answers: DeadAnswers) -> Any:
    return permitted("olga")


def send(
    who: Any, *places: tuple[int, int], target: ResendTarget = RETRY, edited: NewRecord | None = None
) -> ResendResult:
    result = services.send(who, "orders", places, target=target, edited=edited, comment="fixed")
    assert result is not None
    return result


def values(answers: DeadAnswers) -> list[tuple[str, bytes | None]]:
    return [(topic, r.value) for topic, r in answers.written]


def age(seconds: float) -> None:
    """Open batches are so old."""
    DeadLetterBatch.objects.filter(state="sending").update(created_at=timezone.now() - timedelta(seconds=seconds))


def test_a_dead_letter_goes_to_its_group_with_its_first_attempt(olga: Any, answers: DeadAnswers) -> None:
    result = send(olga, (0, 1))
    assert (result.target, result.sent, result.problems) == ("orders.retry", 1, [])
    ((topic, sent),) = answers.written
    assert (topic, sent.key, sent.value, sent.partition, sent.timestamp_ms) == ("orders.retry", b"k1", b"v1", 0, None)
    assert dict(sent.headers) == {
        "h": b"\xff",
        "x-retry-source": b"orders-0@51",
        "x-retry-group": b"billing",
        "x-retry-resent": b"orders.dead-0@1",
    }
    change = Change.objects.get(verb="dead_letters.send")
    assert (change.actor, change.object_name, change.outcome) == ("olga", "orders.dead", "confirmed")
    assert change.after == {"places": ["0@1"], "target": "retry", "edited": False}


def test_the_topic_gets_the_record_without_a_group(olga: Any, answers: DeadAnswers) -> None:
    send(olga, (0, 1), target=TOPIC)
    ((topic, sent),) = answers.written
    assert topic == "orders" and "x-retry-group" not in dict(sent.headers)


def test_a_repeated_sending_writes_nothing(olga: Any, answers: DeadAnswers) -> None:
    first = send(olga, (0, 1), (0, 2))
    again = send(permitted("bea"), (0, 2), (0, 1), (1, 0))
    assert (first.sent, again.sent, again.already) == (2, 1, 2)
    assert Counter(values(answers)) == {
        ("orders.retry", b"v1"): 1,
        ("orders.retry", b"v2"): 1,
        ("orders.retry", b"v0"): 1,
    }
    assert send(olga, (0, 1), target=TOPIC).sent == 1, "another target is another sending"


@pytest.mark.parametrize("moment", [CrashPoint.BEFORE_COMMIT, CrashPoint.AFTER_COMMIT])
def test_a_crash_in_the_middle_is_found_out_by_the_next_sending(
    moment: CrashPoint, olga: Any, answers: DeadAnswers
) -> None:
    answers.crash = moment
    with pytest.raises(Crash):
        send(olga, (0, 1), (0, 2))
    assert DeadLetterBatch.objects.get().state == "sending"
    busy = send(olga, (0, 1))
    assert busy.refused == 1 and "are being sent" in busy.problems[0] and len(answers.written) in (0, 2)
    age(services.BUSY_SECONDS + 1)
    answers.unreachable = True
    unknown = send(olga, (0, 1))
    assert unknown.refused == 1 and "no coordinator" in unknown.problems[0]
    answers.unreachable = False
    result = send(olga, (0, 1), (0, 2))
    assert (result.sent, result.already) == ((2, 0) if moment is CrashPoint.BEFORE_COMMIT else (0, 2))
    assert Counter(values(answers)) == {("orders.retry", b"v1"): 1, ("orders.retry", b"v2"): 1}
    assert not DeadLetterBatch.objects.filter(state="sending").exists()


@pytest.mark.parametrize(("moment", "sent"), [(CrashPoint.BEFORE_COMMIT, 0), (CrashPoint.AFTER_COMMIT, 1)])
def test_a_commit_without_an_answer_is_found_out_at_once(
    moment: CrashPoint, sent: int, olga: Any, answers: DeadAnswers
) -> None:
    answers.silent = moment
    result = send(olga, (0, 1))
    assert (result.sent, result.refused, result.unknown) == (sent, 1 - sent, 0)
    assert send(olga, (0, 1)).already == sent and len(answers.written) == 1


def test_an_outcome_that_cannot_be_found_out_is_called_unknown(olga: Any, answers: DeadAnswers) -> None:
    answers.silent, answers.unreachable = CrashPoint.AFTER_COMMIT, True
    result = send(olga, (0, 1))
    assert result.unknown == 1 and Change.objects.get().outcome == "unknown"
    answers.unreachable = False
    age((services.MARKER_DAYS_MAX + 1) * 86_400)
    assert send(olga, (0, 1), (0, 2)).already == 1, "its marker is gone: it is not sent again"
    assert DeadLetterBatch.objects.filter(state="unknown").count() == 1
    assert Counter(values(answers)) == {("orders.retry", b"v1"): 1, ("orders.retry", b"v2"): 1}


def test_a_rejected_sending_can_be_repeated(olga: Any, answers: DeadAnswers) -> None:
    answers.rejection = "The record is larger than max.message.bytes of the topic."
    result = send(olga, (0, 1))
    assert result.refused == 1 and "max.message.bytes" in result.problems[0]
    assert Change.objects.get().outcome == "refused" and not SentDeadLetter.objects.exists()
    answers.rejection = ""
    assert send(olga, (0, 1)).sent == 1


def test_a_request_has_a_time_limit(olga: Any, answers: DeadAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "REQUEST_SECONDS", -1.0)
    result = send(olga, (0, 1), (1, 0))
    assert (result.sent, result.refused, result.problems) == (0, 2, [services.TIME_OVER]) and not answers.written


def test_two_operators_at_the_same_time_write_one_record(
    olga: Any, answers: DeadAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins between the first one's row and its transaction."""
    inner: list[ResendResult] = []
    once = answers.send_once

    def send_once(*arguments: Any) -> Any:
        if not inner:
            inner.append(ResendResult("begun"))
            inner.append(send(permitted("bea"), (0, 1)))
        return once(*arguments)

    monkeypatch.setattr("controlplane.clients.transactional_producer.send_once", send_once)
    assert send(olga, (0, 1)).sent == 1
    assert inner[1].refused == 1 and values(answers) == [("orders.retry", b"v1")]


def test_an_edited_record_replaces_one_dead_letter(olga: Any, answers: DeadAnswers) -> None:
    edited = NewRecord(b"k9", b"fixed", (("x-retry-group", b"billing"),))
    assert send(olga, (0, 1), edited=edited).sent == 1
    ((_, sent),) = answers.written
    assert (sent.key, sent.value, sent.partition) == (b"k9", b"fixed", None)
    assert send(olga, (0, 1)).already == 1, "the dead letter itself counts as sent"
    with pytest.raises(Rejected, match="exactly one"):
        send(olga, (0, 1), (0, 2), edited=edited)
    with pytest.raises(Rejected, match="no header x-retry-group"):
        send(olga, (0, 2), edited=NewRecord(b"k", b"v"))


def test_all_matching_dead_letters_are_sent_in_parts(olga: Any, answers: DeadAnswers) -> None:
    answers.letters[0] += [letter(o) for o in range(10, 17)]
    query = RecordQuery("orders", limit=3, filters=DeadLetterFilters(group="billing"), all_partitions=True)
    resume, rounds = "", []
    while True:
        result = services.send_matching(olga, "orders", query, target=RETRY, resume=resume, comment="fixed")
        assert result is not None
        rounds.append(result.sent)
        resume = result.resume
        if not resume:
            break
    assert rounds == [3, 3, 3] and Counter(values(answers)).most_common(1)[0][1] == 1
    again = services.send_matching(olga, "orders", query, target=RETRY, comment="fixed")
    assert again is not None and (again.sent, again.already) == (0, 3)
    assert Change.objects.first().after["group"] == "billing"  # type: ignore[union-attr]


def test_what_cannot_be_sent_is_rejected(olga: Any, answers: DeadAnswers) -> None:
    for places, reason in (
        ([], "out of range"),
        ([(0, o) for o in range(services.PLACES_MAX + 1)], "out of range"),
        ([(7, 1)], "does not exist"),
        ([(0, 5)], "no header x-retry-group"),
        ([(0, 1), (0, services.OFFSETS_SPAN_MAX + 1)], "too far apart"),
    ):
        with pytest.raises(Rejected, match=reason):
            send(olga, *places)
    assert send(olga, (0, 5), (0, 77), target=TOPIC) == ResendResult("orders", sent=1, missing=1)
    with pytest.raises(Rejected, match="Give a reason"):
        services.send(olga, "orders", [(0, 1)], target=TOPIC, comment="")
    assert services.send(olga, "plain", [(0, 1)], target=TOPIC, comment="x") is None
    assert (
        services.record_to_resend(olga, "plain", 0, 1) is None
        and services.dead_letters(olga, "plain", RecordQuery("x")) is None
    )
    with pytest.raises(Rejected, match="no record at offset"):
        services.record_to_resend(olga, "orders", 0, 77)


def test_permissions(answers: DeadAnswers) -> None:
    with pytest.raises(PermissionDenied, match="produce_records"):
        send(permitted("anna", "read_records"), (0, 1))
    with pytest.raises(PermissionDenied, match="read_records"):
        send(permitted("pia", "produce_records"), (0, 1))
    vera = permitted("vera", staff=False)
    MaskingRule.objects.create(topics="orders*", target="value", field="$.card")
    with pytest.raises(PermissionDenied, match="Masking rules"):
        services.record_to_resend(vera, "orders", 0, 1)
    with pytest.raises(PermissionDenied, match="Masking rules"):
        send(vera, (0, 1))
    assert not answers.written


def test_rows_of_dead_letters_that_retention_deleted_are_deleted(olga: Any, answers: DeadAnswers) -> None:
    send(olga, (0, 1))
    send(olga, (0, 2))
    answers.starts[0] = 2
    send(olga, (0, 5), target=TOPIC)
    assert set(SentDeadLetter.objects.values_list("offset", flat=True)) == {2, 5}
    assert DeadLetterBatch.objects.count() == 2


def test_the_list_has_the_cause_and_earlier_sendings(olga: Any, answers: DeadAnswers) -> None:
    send(olga, (0, 1))
    of = dead_letter_topic("orders")
    assert of is not None and (of.dead_topic, of.retry_topic) == ("orders.dead", "orders.retry")
    found = services.dead_letters(olga, "orders", RecordQuery("orders", filters=DeadLetterFilters(group="billing")))
    assert found is not None and [(r.record.partition, r.record.offset) for r in found.rows] == [(0, 1), (1, 0)]
    cause = found.rows[0].cause
    assert (cause.group, cause.attempts, cause.error, cause.source) == ("billing", 4, "timeout of card", "orders-0@51")
    assert [(s.target, s.state, s.actor) for s in found.rows[0].sent] == [("orders.retry", "sent", "olga")]
    assert not found.rows[1].sent
