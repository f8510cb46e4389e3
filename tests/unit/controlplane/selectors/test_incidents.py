"""Incidents of open alerts: their causes, what changed before, and the next step."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.models import (
    Alert,
    Broker,
    Change,
    Cluster,
    ClusterEvent,
    ConsumerGroup,
    GroupPartition,
    Move,
    ReplicaDamageReport,
)
from controlplane.selectors import alerts as selectors
from controlplane.selectors import incidents
from controlplane.services import alerts
from controlplane.services import incidents as services
from controlplane.services.move_planning import parse_scope
from controlplane.services.moves import plan_move
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def group(name: str, topic: str, index: int) -> None:
    row = ConsumerGroup.objects.create(group_id=name, state="Stable", status="stalled", observed_at=timezone.now())
    GroupPartition.objects.create(
        group=row, topic=topic, index=index, committed=7, status="stalled", observed_at=timezone.now()
    )


def outage(world: World) -> None:
    """Broker 1 is down. Therefore orders-0 has no leader. Group billing reads orders-0, group nightly reads a healthy partition."""
    world.topic("orders", (1, 2), (2, 3))
    world.topic("other", (2, 3))
    world.offline("orders", 0)
    group("billing", "orders", 0)
    group("nightly", "other", 0)
    world.down(1)
    alerts.evaluate()


def test_a_dead_broker_is_the_cause_of_offline_partitions_and_of_the_group_that_reads_them(world: World) -> None:
    outage(world)
    first, second = incidents.incident_list()
    assert (first.cause.kind, first.cause.subject, first.severity) == ("broker_down", "1", "at_risk")
    assert [(e.kind, e.subject) for e in first.effects] == [("partitions_offline", ""), ("group_stalled", "billing")]
    assert (second.cause.subject, second.effects) == ("nightly", [])


@pytest.mark.parametrize(
    ("unread", "coordinator", "explained"),
    [((90, 10, 10), 2, True), ((40, 40, 40), 2, False), ((40, 40, 40), 1, True)],
    ids=["on its partition", "on all partitions", "coordinator"],
)
def test_lag_is_an_effect_of_a_dead_broker_if_it_is_on_the_partitions_that_the_broker_led(
    world: World, unread: tuple[int, ...], coordinator: int, explained: bool
) -> None:
    world.topic("orders", (1, 2), (2, 1), (3, 1))
    world.down(1)
    for index, leader in enumerate((2, 2, 3)):
        world.put("orders", index, leader=leader, isr=(leader,))
    row = ConsumerGroup.objects.create(
        group_id="slow", state="Stable", status="stalled", coordinator=coordinator, observed_at=timezone.now()
    )
    for index, records in enumerate(unread):
        GroupPartition.objects.create(
            group=row, topic="orders", index=index, status="stalled", lag_records=records, observed_at=timezone.now()
        )
    alerts.evaluate()
    down = next(i for i in incidents.incident_list() if i.cause.kind == "broker_down")
    assert ("slow" in [e.subject for e in down.effects]) is explained


def test_lists_show_an_alert_with_the_severity_of_its_incident(world: World) -> None:
    """The list showed a broker as degraded that the overview and its own page showed as at risk."""
    outage(world)
    down = Alert.objects.get(kind="broker_down")
    behind = Alert.objects.get(subject="nightly")
    assert incidents.raised() == {down.pk}
    rows = selectors.alert_list(sort="severity", raised=incidents.raised()).rows
    assert [r.severity for r in rows] == ["at_risk", "at_risk", "degraded", "degraded"]
    assert down.pk in [r.id for r in rows[:2]]
    shown = incidents.with_incident_severity(selectors.alert_shapes([behind, down]))
    assert [(r.id, r.severity) for r in shown] == [(down.pk, "at_risk"), (behind.pk, "degraded")]


def test_the_page_of_an_object_reads_only_the_alerts_of_its_incidents(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read all open alerts, also for an alert that explains no other."""
    outage(world)
    down = selectors.alert_shapes(Alert.objects.filter(kind="broker_down"))
    nightly = selectors.alert_shapes(Alert.objects.filter(subject="nightly"))
    at_risk = selectors.alert_shapes(Alert.objects.filter(kind="partitions_offline"))
    since = timezone.now()
    Alert.objects.create(kind="anomaly", subject="x", severity="at_risk", text="", do="", since=since)
    read: list[set[str]] = []

    def severities(rows: list[selectors.AlertRow]) -> tuple[list[str], int]:
        with CaptureQueriesContext(connection) as queries:
            shown = incidents.with_incident_severity(rows)
        return [a.severity for a in shown], len(queries)

    def group_and_note(rows: list[selectors.AlertRow]) -> list[incidents.IncidentRow]:
        read.append({a.kind for a in rows})
        return group_of(rows)

    group_of = incidents._group
    monkeypatch.setattr(incidents, "_group", group_and_note)
    lost = {"kind": "group_data_lost", "severity": "at_risk", "text": "", "do": "", "since": since}
    assert severities(at_risk) == (["at_risk"], 0)
    assert severities(nightly) == (["degraded"], 1), "no data is lost"
    Alert.objects.create(subject="billing", **lost)
    assert severities(nightly) == (["degraded"], 1), "the data of another group"
    assert read == []
    assert severities(down)[0] == ["at_risk"]
    assert read == [{"broker_down", "partitions_offline", "group_stalled", "group_data_lost"}]
    Alert.objects.create(subject="nightly", **lost)
    assert severities(nightly)[0] == ["at_risk"]


def test_an_effect_names_its_cause(world: World) -> None:
    outage(world)
    effect = Alert.objects.get(kind="partitions_offline")
    detail = incidents.incident_detail(effect.pk)
    assert detail is not None and detail.caused_by is not None
    assert (detail.caused_by.kind, detail.effects) == ("broker_down", [])
    steps = [(s.kind, s.target) for s in detail.next_steps]
    orders = ["orders", "0"]
    assert steps == [("open_broker", ["1"]), ("open_partition", orders), ("propose_election", orders)]


def test_an_effect_of_a_cause_without_an_operation_leads_first_to_the_cause(world: World) -> None:
    """The first button of a move was its throttle, which nobody can change without ZooKeeper."""
    world.topic("orders", (1, 2))
    move = stuck_move("controller", [2, 3])
    lose_zookeeper()
    alerts.evaluate()
    detail = incidents.incident_detail(move.pk)
    assert detail is not None and detail.caused_by is not None
    cause = ("open_cause", [str(detail.caused_by.id)])
    assert [(s.kind, s.target) for s in detail.next_steps] == [cause, ("open_move", [move.subject])]


def test_the_page_has_the_changes_of_the_fifteen_minutes_before(world: World) -> None:
    outage(world)
    alert = Alert.objects.get(kind="broker_down")
    old = alert.since - incidents.BEFORE - timedelta(seconds=1)
    ClusterEvent.objects.create(at=old, kind="broker_registered", subject="9", text="too old")
    for verb, kind in (("topic.alter", "topic"), ("records.read", "records"), ("alert.note", "alert")):
        Change.objects.create(actor="alice", verb=verb, object_kind=kind, object_name="orders", comment="why")
    detail = incidents.incident_detail(alert.pk)
    assert detail is not None
    assert [(r.text, r.reason) for r in detail.before if r.source == "change"] == [("Alter topic", "why")]
    assert any(r.text.startswith("Broker 1 went down") for r in detail.before) and "too old" not in [
        r.text for r in detail.before
    ]
    assert [r.at for r in detail.before] == sorted((r.at for r in detail.before), reverse=True)
    assert [e.kind for e in detail.timeline] == ["opened"]


def test_a_change_before_the_alert_has_its_first_changed_values(world: World) -> None:
    outage(world)
    values = {"before": {"configs": {"a": "1"}}, "after": {"configs": {"a": "2", "b": "3", "c": "4"}}}
    Change.objects.create(actor="alice", verb="topic.alter", object_kind="topic", object_name="orders", **values)
    detail = incidents.incident_detail(Alert.objects.get(kind="broker_down").pk)
    assert detail is not None
    (row,) = [r for r in detail.before if r.is_change]
    assert [(v.name, v.before, v.after) for v in row.values] == [("configs.a", "1", "2"), ("configs.b", None, "3")]
    assert row.values_more == 1


def test_silenced_incidents_are_last_and_an_acknowledgement_names_its_operator(world: World) -> None:
    outage(world)
    services.silence("broker_down", "1", 10, actor="alice", comment="new disk")
    nightly = Alert.objects.get(subject="nightly")
    services.acknowledge(nightly.pk, actor="bob")
    first, second = incidents.incident_list()
    assert (first.cause.id, first.cause.acknowledged_by) == (nightly.pk, "bob")
    assert second.cause.silenced_until is not None and first.cause.silenced_until is None


def test_a_silent_monitor_has_a_page_without_a_row(world: World) -> None:
    assert incidents.incident_detail(0) is None and incidents.incident_list() == []
    world.age_observation(300)
    detail = incidents.incident_detail(0)
    assert detail is not None and detail.alert.kind == "monitor_silent" and detail.timeline == []
    assert [i.cause.id for i in incidents.incident_list()] == [0]


def test_a_resolved_alert_keeps_its_page_and_has_no_next_step(world: World) -> None:
    outage(world)
    Alert.objects.update(ended_at=timezone.now())
    detail = incidents.incident_detail(Alert.objects.get(kind="broker_down").pk)
    assert detail is not None and (detail.next_steps, detail.effects, detail.caused_by) == ([], [], None)


def stuck_move(cause: str, to: list[int]) -> Alert:
    scope = parse_scope({"kind": "topic", "topic": "orders", "brokers": to})
    move = plan_move(scope, actor="alice", comment="x")
    Move.objects.filter(pk=move.pk).update(state="running")
    move.parts.update(cause=cause, state="copying")
    alerts.evaluate()
    return Alert.objects.get(kind="move_stuck")


def lose_zookeeper() -> None:
    Cluster.objects.update(zookeeper_connected=False)


@pytest.mark.parametrize(
    ("cause", "down", "explained_by"),
    [
        ("target_down", 3, "broker_down"),
        ("target_down", 1, None),
        ("no_space", None, None),
        ("controller", None, "zookeeper_away"),
    ],
)
def test_a_stuck_move_is_an_effect_of_what_its_partitions_wait_for(
    world: World, cause: str, down: int | None, explained_by: str | None
) -> None:
    """A move with a target that was down was shown as an effect of ZooKeeper, and of a source that was down."""
    world.topic("orders", (1, 2))
    world.topic("other", (3, 2))
    move = stuck_move(cause, [2, 3])
    lose_zookeeper()
    if down is not None:
        world.down(down)
    alerts.evaluate()
    detail = incidents.incident_detail(move.pk)
    assert detail is not None
    assert (detail.caused_by.kind if detail.caused_by else None) == explained_by


def test_a_slow_disk_is_the_cause_of_the_replicas_that_lag_on_it(world: World) -> None:
    world.topic("orders", (1, 2))
    world.put("orders", 0, isr=(1,))
    Broker.objects.filter(pk=2).update(dirs_slow=["/data/b"])
    alerts.evaluate()
    found = {i.cause.kind: [e.kind for e in i.effects] for i in incidents.incident_list()}
    assert found["disk_slow"] == ["partitions_under_replicated"]


def test_a_failed_disk_is_the_cause_of_the_damaged_replicas_on_it(world: World) -> None:
    world.topic("orders", (1, 2))
    Broker.objects.filter(pk=2).update(dirs_failed=["/data/b"])
    ReplicaDamageReport.objects.create(
        topic_id=world.image.topic_ids["orders"], topic_name="orders", partition=0, broker_id=2, kind="disk"
    )
    alerts.evaluate()
    (found,) = incidents.incident_list()
    assert (found.cause.kind, [e.kind for e in found.effects]) == ("disk_failed", ["copies_damaged"])
