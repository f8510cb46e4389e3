"""Verdicts from the results of connection attempts, without sockets."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.liveness import (
    REFUSED_RETRY_MS,
    TOGETHER_MS_MAX,
    UNREACHABLE_RETRY_MS,
    Liveness,
)


def now_at(ms: int) -> Now:
    return Now(ms, ms)


def registrations_of(**broker_epochs: int) -> dict[int, Registration]:
    return {
        int(name[1:]): Registration(int(name[1:]), "uuid", "h", 1, None, None, True, broker_epoch=epoch)
        for name, epoch in broker_epochs.items()
    }


@pytest.fixture
def liveness() -> Liveness:
    """Stands by and is connected to the brokers 1 and 2."""
    liveness = Liveness()
    liveness.watch(registrations_of(b1=7, b2=8))
    for broker_id in (1, 2):
        liveness.on_attempt(broker_id)
        liveness.on_connected(broker_id)
    return liveness


def refuse(liveness: Liveness, broker_id: int, ms: int) -> bool:
    assert broker_id in liveness.due(now_at(ms))
    liveness.on_attempt(broker_id)
    return liveness.refused(broker_id, now_at(ms))


def test_a_standby_controller_tries_again_slowly_and_reports_nothing(liveness: Liveness) -> None:
    liveness.on_connection_ended(1, now_at(0))
    for n in range(5):
        assert not refuse(liveness, 1, n * UNREACHABLE_RETRY_MS)
        assert not liveness.due(now_at((n + 1) * UNREACHABLE_RETRY_MS - 1))
    assert not liveness.report(now_at(60_000)) and not liveness.reported


def test_an_elected_controller_needs_new_refusals(liveness: Liveness) -> None:
    liveness.on_connection_ended(1, now_at(0))
    refuse(liveness, 1, 0)
    assert liveness.counts() == (1, 1, 0)
    liveness.begin_term(now_at(100))
    assert liveness.due(now_at(100)) == [1], "tried at once"
    assert not refuse(liveness, 1, 100)
    assert refuse(liveness, 1, 100 + REFUSED_RETRY_MS)
    assert liveness.report(now_at(100 + REFUSED_RETRY_MS)) and liveness.reported == {(1, 7)}


def test_a_broker_that_accepts_after_the_election_is_alive(liveness: Liveness) -> None:
    liveness.on_connection_ended(1, now_at(0))
    refuse(liveness, 1, 0)
    liveness.begin_term(now_at(100))
    liveness.on_attempt(1)
    liveness.on_connected(1)
    assert not liveness.report(now_at(10_000)) and not liveness.due(now_at(10_000))


def test_an_incarnation_without_an_earlier_connection_is_never_dead(liveness: Liveness) -> None:
    assert liveness.watch(registrations_of(b1=9, b2=8)) == [1]
    liveness.begin_term(now_at(0))
    for n in range(5):
        assert not refuse(liveness, 1, n * UNREACHABLE_RETRY_MS)


def test_brokers_that_died_before_the_election_are_reported_together(liveness: Liveness) -> None:
    liveness.on_connection_ended(1, now_at(0))
    liveness.on_connection_ended(2, now_at(5_000))
    liveness.begin_term(now_at(6_000))
    assert set(liveness.due(now_at(6_000))) == {1, 2}
    refuse(liveness, 1, 6_000)
    refuse(liveness, 2, 6_000)
    assert refuse(liveness, 1, 6_000 + REFUSED_RETRY_MS)
    assert not liveness.report(now_at(6_000 + REFUSED_RETRY_MS)), "2 is in doubt"
    assert refuse(liveness, 2, 6_000 + REFUSED_RETRY_MS)
    assert liveness.report(now_at(6_000 + REFUSED_RETRY_MS)) and liveness.reported == {(1, 7), (2, 8)}


def test_a_verdict_waits_only_briefly_for_a_broker_that_does_not_respond(liveness: Liveness) -> None:
    liveness.begin_term(now_at(0))
    liveness.on_connection_ended(1, now_at(0))
    liveness.on_connection_ended(2, now_at(0))
    liveness.on_attempt(2)
    refuse(liveness, 1, 0)
    refuse(liveness, 1, REFUSED_RETRY_MS)
    assert not liveness.report(now_at(REFUSED_RETRY_MS + TOGETHER_MS_MAX - 1))
    assert liveness.report(now_at(REFUSED_RETRY_MS + TOGETHER_MS_MAX)) and liveness.reported == {(1, 7)}


def test_the_end_of_a_term_ends_its_verdicts(liveness: Liveness) -> None:
    liveness.begin_term(now_at(0))
    liveness.on_connection_ended(1, now_at(0))
    refuse(liveness, 1, 0)
    refuse(liveness, 1, REFUSED_RETRY_MS)
    assert liveness.report(now_at(100)) and liveness.reported
    liveness.stand_by(now_at(200))
    assert not liveness.reported and not liveness.report(now_at(10_000))
    liveness.begin_term(now_at(300))
    assert not refuse(liveness, 1, 300)
    assert refuse(liveness, 1, 300 + REFUSED_RETRY_MS), "the connection before is remembered"


def test_a_verdict_belongs_to_one_incarnation(liveness: Liveness) -> None:
    liveness.begin_term(now_at(0))
    liveness.on_connection_ended(1, now_at(0))
    refuse(liveness, 1, 0)
    refuse(liveness, 1, REFUSED_RETRY_MS)
    assert liveness.report(now_at(100))
    assert not liveness.watch(registrations_of(b1=7, b2=8)) and liveness.reported == {(1, 7)}, (
        "the registration outlives its process"
    )
    assert liveness.watch(registrations_of(b1=9, b2=8)) == [1] and not liveness.reported
