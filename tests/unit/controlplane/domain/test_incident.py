"""Grouping of open alerts by cause."""

from __future__ import annotations

from dataclasses import replace
from graphlib import TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.alert_types import AlertKind as K
from controlplane.domain.alert_types import Severity
from controlplane.domain.incident import (
    CAUSE_LATE_S,
    LAG_CAUSE_LATE_S,
    LAG_EFFECT_S,
    RULES,
    GroupRead,
    Incident,
    OpenAlert,
    brokers_that_delay,
    causes,
    effects_of,
    explains_own_subject_only,
    incidents,
    with_causes,
)


def alert(number: int, kind: K, *objects: str, since: float = 0.0, grave: bool = False) -> OpenAlert:
    severity = Severity.AT_RISK if grave else Severity.DEGRADED
    return OpenAlert(number, kind, severity, since, frozenset(objects))


def test_a_dead_broker_explains_its_partitions_and_the_lag_on_them() -> None:
    down = alert(1, K.BROKER_DOWN, "broker:2")
    offline = alert(2, K.PARTITIONS_OFFLINE, "broker:2", "broker:3", grave=True)
    behind = alert(3, K.GROUP_STALLED, "group:billing", "broker:2", since=20)
    other = alert(4, K.GROUP_STALLED, "group:nightly", "broker:1", since=20)
    assert incidents([down, offline, behind, other]) == [
        Incident(1, (2, 3), Severity.AT_RISK),
        Incident(4, (), Severity.DEGRADED),
    ]


def test_the_incident_is_as_severe_as_its_gravest_effect() -> None:
    down, offline = alert(1, K.BROKER_DOWN, "broker:2"), alert(2, K.PARTITIONS_OFFLINE, "broker:2", grave=True)
    lost = alert(3, K.GROUP_DATA_LOST, "group:x", since=-500, grave=True)
    found = incidents([down, offline, lost])
    assert [(i.cause, i.severity) for i in found] == [(1, Severity.AT_RISK), (3, Severity.AT_RISK)]


def test_a_lost_zookeeper_explains_outdated_data_and_alerts_that_need_a_controller() -> None:
    away, silent = alert(1, K.ZOOKEEPER_AWAY), alert(0, K.MONITOR_SILENT, since=10, grave=True)
    controller, stuck = alert(2, K.NO_CONTROLLER, since=6, grave=True), alert(3, K.MOVE_STUCK, "move:7", since=30)
    (found,) = incidents([controller, stuck, silent, away])
    assert found == Incident(1, (2, 0, 3), Severity.AT_RISK)


def test_a_dead_broker_is_the_cause_although_zookeeper_is_lost_too() -> None:
    """The loss of ZooKeeper was shown as the cause of partitions whose broker was down."""
    away, down = alert(1, K.ZOOKEEPER_AWAY), alert(2, K.BROKER_DOWN, "broker:3", since=5)
    offline = alert(3, K.PARTITIONS_OFFLINE, "broker:3", since=9, grave=True)
    elsewhere = alert(4, K.PARTITIONS_UNDER_MIN_ISR, "broker:2", since=9, grave=True)
    assert causes([away, down, offline, elsewhere]) == {3: 2, 4: 1}


def test_a_move_with_a_cause_of_its_own_is_no_effect_of_zookeeper_a_controller_or_a_worker() -> None:
    """A rejected move and one that producers outran were shown as effects of ZooKeeper."""
    kinds = (K.MOVE_FAILED, K.MOVE_WILL_NOT_FINISH)
    moves = [alert(10 + i, kind, f"move:{i}", since=30) for i, kind in enumerate(kinds)]
    full = replace(alert(20, K.MOVE_STUCK, "move:7", since=30), own_cause=True)
    waits = alert(21, K.MOVE_STUCK, "move:8", since=30)
    for cause in (K.ZOOKEEPER_AWAY, K.NO_CONTROLLER, K.WORKER_SILENT):
        assert causes([alert(1, cause), *moves, full, waits]) == {21: 1}


def test_a_worker_that_does_not_run_explains_stuck_moves() -> None:
    silent, stuck = alert(1, K.WORKER_SILENT), alert(2, K.MOVE_STUCK, "move:7", since=30)
    assert [(i.cause, i.effects) for i in incidents([stuck, silent])] == [(1, (2,))]


def test_one_worker_that_reads_all_queues_is_one_incident() -> None:
    silent, spark = alert(1, K.WORKER_SILENT), alert(2, K.SPARK_WORKER_SILENT, since=60)
    assert [(i.cause, i.effects) for i in incidents([spark, silent])] == [(1, (2,))]


def test_a_chain_of_causes_is_one_incident_of_the_first_cause() -> None:
    down = alert(1, K.BROKER_DOWN, "broker:2")
    stalled = alert(2, K.GROUP_STALLED, "group:billing", "broker:2", since=30)
    retention = alert(3, K.GROUP_RETENTION, "group:billing", since=90, grave=True)
    assert causes([retention, stalled, down]) == {2: 1, 3: 2}
    assert incidents([retention, stalled, down]) == [Incident(1, (3, 2), Severity.AT_RISK)]


def test_an_alert_that_is_older_than_the_cause_has_another_cause() -> None:
    down = alert(1, K.BROKER_DOWN, "broker:2", since=1000)
    late = alert(2, K.PARTITIONS_UNDER_REPLICATED, "broker:2", since=1000 - CAUSE_LATE_S)
    old = alert(3, K.PARTITIONS_UNDER_REPLICATED, "broker:2", since=1000 - CAUSE_LATE_S - 1)
    assert causes([down, late, old]) == {2: 1}


def test_a_group_that_was_behind_before_a_broker_failed_is_an_incident_of_its_own() -> None:
    down = alert(1, K.BROKER_DOWN, "broker:2", since=1000)
    late = alert(2, K.GROUP_FALLING_BEHIND, "group:a", "broker:2", since=1000 - LAG_CAUSE_LATE_S)
    before = alert(3, K.GROUP_FALLING_BEHIND, "group:b", "broker:2", since=1000 - LAG_CAUSE_LATE_S - 1)
    retention = alert(4, K.GROUP_RETENTION, "group:b", "broker:2", since=1000 - LAG_CAUSE_LATE_S - 1)
    assert causes([down, late, before, retention]) == {2: 1, 4: 3}


def test_lag_that_begins_long_after_a_broker_failed_is_an_incident_of_its_own() -> None:
    down = alert(1, K.BROKER_DOWN, "broker:2", since=0)
    soon = alert(2, K.GROUP_FALLING_BEHIND, "group:a", "broker:2", since=LAG_EFFECT_S)
    late = alert(3, K.GROUP_FALLING_BEHIND, "group:b", "broker:2", since=LAG_EFFECT_S + 1)
    assert causes([down, soon, late]) == {2: 1}
    offline = alert(4, K.PARTITIONS_OFFLINE, "broker:2", since=5, grave=True)
    assert causes([down, soon, late, offline]) == {2: 1, 3: 4, 4: 1}, "a partition without a leader delays at any time"
    silent = alert(1, K.BROKER_SILENT, "broker:2", since=0)
    assert causes([silent, soon, late]) == {2: 1, 3: 1}, "it may still lead"


def test_the_brokers_that_delay_a_group_led_half_of_its_unread_records() -> None:
    """A consumer that was too slow on all partitions was shown as an effect of the broker that had failed."""
    failed = frozenset({"broker:2"})
    slow = [GroupRead(100, failed), *(GroupRead(100) for _ in range(3))]
    assert brokers_that_delay(slow) == set()
    assert brokers_that_delay([GroupRead(300, failed), *slow]) == failed
    assert brokers_that_delay([*slow, GroupRead(0, frozenset({"broker:3"}), offline=True)]) == {"broker:3"}
    assert brokers_that_delay([GroupRead(None, failed), GroupRead(None)]) == failed, "the lag is unknown"
    assert brokers_that_delay([]) == brokers_that_delay([GroupRead(5)]) == set()


def test_a_dead_broker_is_above_a_group_that_fell_behind_earlier() -> None:
    behind, down = alert(1, K.GROUP_FALLING_BEHIND, "group:a", since=1), alert(2, K.BROKER_DOWN, "broker:2", since=9)
    offline = alert(3, K.PARTITIONS_OFFLINE, "broker:1", since=20, grave=True)
    assert [i.cause for i in incidents([behind, down, offline])] == [3, 2, 1]


def test_a_stopped_group_does_not_explain_the_loss_of_another_group_on_the_same_broker() -> None:
    """A group that nobody uses was shown as the cause of the unread records of all groups on the broker."""
    stopped = alert(1, K.GROUP_STOPPED, "group:nightly", "broker:3")
    own = alert(2, K.GROUP_RETENTION, "group:nightly", "broker:3", since=90)
    other = alert(3, K.GROUP_DATA_LOST, "group:reporting", "broker:3", since=90)
    assert causes([stopped, own, other]) == {2: 1}


@pytest.mark.parametrize("kind", [K.GROUP_STOPPED, K.GROUP_STALLED, K.GROUP_FALLING_BEHIND])
def test_a_group_that_stops_after_it_fell_behind_still_explains_its_own_loss(kind: K) -> None:
    """Six minutes after the forecast the group stopped: the overview showed two incidents of one group."""
    retention = alert(1, K.GROUP_RETENTION, "group:billing", "broker:3")
    later = alert(2, kind, "group:billing", "broker:3", since=360)
    other = alert(3, kind, "group:reporting", "broker:3", since=360)
    assert causes([retention, later, other]) == {1: 2}


def test_a_slow_disk_is_measured_later_than_the_lag_that_it_causes() -> None:
    slow = alert(1, K.DISK_SLOW, "broker:2", since=1000)
    behind = alert(2, K.GROUP_FALLING_BEHIND, "group:a", "broker:2", since=1000 - CAUSE_LATE_S)
    assert causes([slow, behind]) == {2: 1}


def test_of_two_dead_brokers_the_one_that_died_first_is_the_cause() -> None:
    first, second = alert(5, K.BROKER_DOWN, "broker:1", since=1), alert(4, K.BROKER_DOWN, "broker:2", since=9)
    offline = alert(6, K.PARTITIONS_OFFLINE, "broker:1", "broker:2", since=9, grave=True)
    assert causes([second, first, offline]) == {6: 5}
    assert [i.cause for i in incidents([second, first, offline])] == [5, 4]


def test_two_alerts_of_one_kind_never_explain_each_other_and_the_rules_form_no_cycle() -> None:
    graph: dict[K, set[K]] = {}
    for rule in RULES:
        assert rule.cause not in rule.effects
        for effect in rule.effects:
            graph.setdefault(effect, set()).add(rule.cause)
    order = list(TopologicalSorter(graph).static_order())
    assert order.index(K.ZOOKEEPER_AWAY) < order.index(K.NO_CONTROLLER) < order.index(K.GROUP_DATA_LOST)


@given(
    st.lists(st.tuples(st.sampled_from(list(K)), st.integers(0, 3), st.integers(0, 200), st.booleans()), max_size=12)
)
def test_every_alert_is_in_exactly_one_incident(rows: list[tuple[K, int, int, bool]]) -> None:
    found = incidents([alert(i, k, f"broker:{b}", since=s, grave=g) for i, (k, b, s, g) in enumerate(rows)])
    members = [a for i in found for a in (i.cause, *i.effects)]
    assert sorted(members) == list(range(len(rows)))


def test_an_alert_explains_the_effects_of_its_effects() -> None:
    assert effects_of(K.PARTITIONS_OFFLINE) > {K.GROUP_STALLED, K.GROUP_DATA_LOST}
    assert effects_of(K.GROUP_STALLED) == {K.GROUP_RETENTION, K.GROUP_DATA_LOST}
    assert effects_of(K.ANOMALY) == frozenset()
    assert {k for k in K if effects_of(k) and explains_own_subject_only(k)} == {
        K.GROUP_STOPPED,
        K.GROUP_STALLED,
        K.GROUP_FALLING_BEHIND,
        K.MOVE_WILL_NOT_FINISH,
    }


CHAIN = [*sorted({rule.cause for rule in RULES} | {effect for rule in RULES for effect in rule.effects}), K.ANOMALY]


@given(
    st.lists(st.tuples(st.sampled_from(CHAIN), st.integers(0, 1), st.integers(0, 200), st.booleans()), max_size=12),
    st.sampled_from(CHAIN),
)
def test_the_incident_of_an_alert_needs_only_the_kinds_that_its_kind_selects(
    rows: list[tuple[K, int, int, bool]], kind: K
) -> None:
    found = [
        alert(i, k, f"broker:{n}", f"group:{n}", f"move:{n}", since=s, grave=g) for i, (k, n, s, g) in enumerate(rows)
    ]
    needed = with_causes({kind, *effects_of(kind)})
    own = {a.id for a in found if a.kind is kind}
    less = incidents([a for a in found if a.kind in needed])
    everything = incidents(found)
    assert {i.cause: i.severity for i in less if i.cause in own} == {
        i.cause: i.severity for i in everything if i.cause in own
    }
    severities = {a.id: a.severity for a in found}
    raised = [i for i in everything if i.cause in own and i.severity is not severities[i.cause]]
    assert not raised or any(a.severity is Severity.AT_RISK and a.kind in effects_of(kind) for a in found)
