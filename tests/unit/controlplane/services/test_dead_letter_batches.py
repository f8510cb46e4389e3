"""Dead letters are written to a target at most once: repeated, by two operators, over crashes at each step."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.domain.dead_letters import ResendTarget
from controlplane.models import Change, DeadLetterBatch, SentDeadLetter
from controlplane.services import dead_letter_batches as batches
from controlplane.services import dead_letters as services
from controlplane.services.dead_letter_batches import ResendResult
from tests.unit.controlplane.dead_letter_responses import (
    Crash,
    CrashPoint,
    DeadLetterResponses,
    patch_responses,
    user_with_permissions,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadLetterResponses:
    return patch_responses(monkeypatch, world)


@pytest.fixture
def olga(responses: DeadLetterResponses) -> Any:
    return user_with_permissions("olga")


def send(who: Any, *places: tuple[int, int], target: ResendTarget = ResendTarget.RETRY) -> ResendResult:
    result = services.send(who, "orders", places, target=target, comment="fixed")
    assert result is not None
    return result


def values(responses: DeadLetterResponses) -> list[tuple[str, bytes | None]]:
    return [(topic, r.value) for topic, r in responses.written]


def age_batches(seconds: float) -> None:
    """Open batches are so old."""
    DeadLetterBatch.objects.filter(state="sending").update(created_at=timezone.now() - timedelta(seconds=seconds))


def test_a_repeated_sending_writes_nothing(olga: Any, responses: DeadLetterResponses) -> None:
    first = send(olga, (0, 1), (0, 2))
    again = send(user_with_permissions("bea"), (0, 2), (0, 1), (1, 0))
    assert (first.sent, again.sent, again.already) == (2, 1, 2)
    assert Counter(values(responses)) == {
        ("orders.retry", b"v1"): 1,
        ("orders.retry", b"v2"): 1,
        ("orders.retry", b"v0"): 1,
    }
    assert send(olga, (0, 1), target=ResendTarget.TOPIC).sent == 1, "another target is another sending"


@pytest.mark.parametrize("moment", [CrashPoint.BEFORE_COMMIT, CrashPoint.AFTER_COMMIT])
def test_a_crash_in_the_middle_is_found_out_by_the_next_sending(
    moment: CrashPoint, olga: Any, responses: DeadLetterResponses
) -> None:
    responses.crash = moment
    with pytest.raises(Crash):
        send(olga, (0, 1), (0, 2))
    assert DeadLetterBatch.objects.get().state == "sending"
    busy = send(olga, (0, 1))
    assert busy.refused == 1 and "are being sent" in busy.problems[0] and len(responses.written) in (0, 2)
    age_batches(batches.BUSY_SECONDS + 1)
    responses.unreachable = True
    unknown = send(olga, (0, 1))
    assert unknown.refused == 1 and "no coordinator" in unknown.problems[0]
    responses.unreachable = False
    result = send(olga, (0, 1), (0, 2))
    assert (result.sent, result.already) == ((2, 0) if moment is CrashPoint.BEFORE_COMMIT else (0, 2))
    assert Counter(values(responses)) == {("orders.retry", b"v1"): 1, ("orders.retry", b"v2"): 1}
    assert not DeadLetterBatch.objects.filter(state="sending").exists()


@pytest.mark.parametrize(("moment", "sent"), [(CrashPoint.BEFORE_COMMIT, 0), (CrashPoint.AFTER_COMMIT, 1)])
def test_a_commit_without_a_response_is_found_out_at_once(
    moment: CrashPoint, sent: int, olga: Any, responses: DeadLetterResponses
) -> None:
    responses.silent = moment
    result = send(olga, (0, 1))
    assert (result.sent, result.refused, result.unknown) == (sent, 1 - sent, 0)
    assert send(olga, (0, 1)).already == sent and len(responses.written) == 1


def test_an_outcome_that_cannot_be_found_out_is_called_unknown(olga: Any, responses: DeadLetterResponses) -> None:
    responses.silent, responses.unreachable = CrashPoint.AFTER_COMMIT, True
    result = send(olga, (0, 1))
    assert result.unknown == 1 and Change.objects.get().outcome == "unknown"
    responses.unreachable = False
    age_batches((batches.MARKER_DAYS_MAX + 1) * 86_400)
    assert send(olga, (0, 1), (0, 2)).already == 1, "its marker is gone: it is not sent again"
    assert DeadLetterBatch.objects.filter(state="unknown").count() == 1
    assert Counter(values(responses)) == {("orders.retry", b"v1"): 1, ("orders.retry", b"v2"): 1}


def test_a_rejected_sending_can_be_repeated(olga: Any, responses: DeadLetterResponses) -> None:
    responses.rejection = "The record is larger than max.message.bytes of the topic."
    result = send(olga, (0, 1))
    assert result.refused == 1 and "max.message.bytes" in result.problems[0]
    assert Change.objects.get().outcome == "refused" and not SentDeadLetter.objects.exists()
    responses.rejection = ""
    assert send(olga, (0, 1)).sent == 1


def test_two_operators_at_the_same_time_write_one_record(
    olga: Any, responses: DeadLetterResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins between the first one's row and its transaction."""
    inner: list[ResendResult] = []
    once = responses.send_once

    def send_once(*arguments: Any) -> Any:
        if not inner:
            inner.append(ResendResult("begun"))
            inner.append(send(user_with_permissions("bea"), (0, 1)))
        return once(*arguments)

    monkeypatch.setattr("controlplane.clients.transactional_producer.send_once", send_once)
    assert send(olga, (0, 1)).sent == 1
    assert inner[1].refused == 1 and values(responses) == [("orders.retry", b"v1")]


def test_rows_of_dead_letters_that_retention_deleted_are_deleted(olga: Any, responses: DeadLetterResponses) -> None:
    send(olga, (0, 1))
    send(olga, (0, 2))
    responses.starts[0] = 2
    send(olga, (0, 5), target=ResendTarget.TOPIC)
    assert set(SentDeadLetter.objects.values_list("offset", flat=True)) == {2, 5}
    assert DeadLetterBatch.objects.count() == 2
