"""Dead letters are sent again: their headers and targets, edited, all that match, the audit row. And what is rejected."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from controlplane.domain.dead_letters import DeadLetterFilters, ResendTarget
from controlplane.domain.produce import NewRecord
from controlplane.domain.record_query import RecordQuery
from controlplane.models import Change, MaskingRule
from controlplane.selectors.dead_letters import dead_letter_topic
from controlplane.services import Rejected
from controlplane.services import dead_letters as services
from controlplane.services.dead_letter_batches import ResendResult
from tests.unit.controlplane.dead_letter_responses import (
    DeadLetterResponses,
    letter,
    patch_responses,
    user_with_permissions,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TOPIC, RETRY = ResendTarget.TOPIC, ResendTarget.RETRY


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadLetterResponses:
    return patch_responses(monkeypatch, world)


@pytest.fixture
def olga(responses: DeadLetterResponses) -> Any:
    return user_with_permissions("olga")


def send(
    who: Any, *places: tuple[int, int], target: ResendTarget = RETRY, edited: NewRecord | None = None
) -> ResendResult:
    result = services.send(who, "orders", places, target=target, edited=edited, comment="fixed")
    assert result is not None
    return result


def values(responses: DeadLetterResponses) -> list[tuple[str, bytes | None]]:
    return [(topic, r.value) for topic, r in responses.written]


def test_a_dead_letter_goes_to_its_group_with_its_first_attempt(olga: Any, responses: DeadLetterResponses) -> None:
    result = send(olga, (0, 1))
    assert (result.target, result.sent, result.problems) == ("orders.retry", 1, [])
    ((topic, sent),) = responses.written
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


def test_the_topic_gets_the_record_without_a_group(olga: Any, responses: DeadLetterResponses) -> None:
    send(olga, (0, 1), target=TOPIC)
    ((topic, sent),) = responses.written
    assert topic == "orders" and "x-retry-group" not in dict(sent.headers)


def test_a_request_has_a_time_limit(olga: Any, responses: DeadLetterResponses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "REQUEST_SECONDS", -1.0)
    result = send(olga, (0, 1), (1, 0))
    assert (result.sent, result.refused, result.problems) == (0, 2, [services.TIME_OVER]) and not responses.written


def test_an_edited_record_replaces_one_dead_letter(olga: Any, responses: DeadLetterResponses) -> None:
    edited = NewRecord(b"k9", b"fixed", (("x-retry-group", b"billing"),))
    assert send(olga, (0, 1), edited=edited).sent == 1
    ((_, sent),) = responses.written
    assert (sent.key, sent.value, sent.partition) == (b"k9", b"fixed", None)
    assert send(olga, (0, 1)).already == 1, "the dead letter itself counts as sent"
    with pytest.raises(Rejected, match="exactly one"):
        send(olga, (0, 1), (0, 2), edited=edited)
    with pytest.raises(Rejected, match="no header x-retry-group"):
        send(olga, (0, 2), edited=NewRecord(b"k", b"v"))


def test_all_matching_dead_letters_are_sent_in_parts(olga: Any, responses: DeadLetterResponses) -> None:
    responses.letters[0] += [letter(o) for o in range(10, 17)]
    query = RecordQuery("orders", limit=3, filters=DeadLetterFilters(group="billing"), all_partitions=True)
    resume, rounds = "", []
    while True:
        result = services.send_matching(olga, "orders", query, target=RETRY, resume=resume, comment="fixed")
        assert result is not None
        rounds.append(result.sent)
        resume = result.resume
        if not resume:
            break
    assert rounds == [3, 3, 3] and Counter(values(responses)).most_common(1)[0][1] == 1
    again = services.send_matching(olga, "orders", query, target=RETRY, comment="fixed")
    assert again is not None and (again.sent, again.already) == (0, 3)
    assert Change.objects.first().after["group"] == "billing"  # type: ignore[union-attr]


def test_what_cannot_be_sent_is_rejected(olga: Any, responses: DeadLetterResponses) -> None:
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


def test_permissions(responses: DeadLetterResponses) -> None:
    with pytest.raises(PermissionDenied, match="produce_records"):
        send(user_with_permissions("anna", "read_records"), (0, 1))
    with pytest.raises(PermissionDenied, match="read_records"):
        send(user_with_permissions("pia", "produce_records"), (0, 1))
    vera = user_with_permissions("vera", staff=False)
    MaskingRule.objects.create(topics="orders*", target="value", field="$.card")
    with pytest.raises(PermissionDenied, match="Masking rules"):
        services.record_to_resend(vera, "orders", 0, 1)
    with pytest.raises(PermissionDenied, match="Masking rules"):
        send(vera, (0, 1))
    assert not responses.written


def test_the_list_has_the_cause_and_earlier_sendings(olga: Any, responses: DeadLetterResponses) -> None:
    send(olga, (0, 1))
    of = dead_letter_topic("orders")
    assert of is not None and (of.dead_topic, of.retry_topic) == ("orders.dead", "orders.retry")
    found = services.dead_letters(olga, "orders", RecordQuery("orders", filters=DeadLetterFilters(group="billing")))
    assert found is not None and [(r.record.partition, r.record.offset) for r in found.rows] == [(0, 1), (1, 0)]
    cause = found.rows[0].cause
    assert (cause.group, cause.attempts, cause.error, cause.source) == ("billing", 4, "timeout of card", "orders-0@51")
    assert [(s.target, s.state, s.actor) for s in found.rows[0].sent] == [("orders.retry", "sent", "olga")]
    assert not found.rows[1].sent
