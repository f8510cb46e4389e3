"""The operation that each alert calls for."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from brokerd.cluster.cordons import LEADERSHIP
from controlplane.clients import supervisor
from controlplane.domain.alert_types import AlertMetric
from controlplane.domain.history import HistorySubject
from controlplane.domain.scope import (
    DrainScope,
    FillScope,
    PartitionsScope,
    Placement,
    RebalanceScope,
    ReplicationFactorScope,
    Scope,
    TopicScope,
)
from controlplane.models import (
    Broker,
    Change,
    ConsumerGroup,
    GroupPartition,
    Move,
    MovePartition,
    ObservedReplica,
    ObservedTopic,
    ReplicaDamageReport,
)
from controlplane.selectors.alerts import AlertRow
from controlplane.selectors.move_steps import plan_move_again
from controlplane.selectors.next_steps import next_steps
from controlplane.services.move_planning import parse_scope
from controlplane.services.moves import plan_move
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def next_steps_of(
    kind: str, subject: str = "", *, ended: bool = False, metric: AlertMetric | None = None
) -> list[tuple[str, list[str]]]:
    now = timezone.now()
    row = AlertRow(1, kind, subject, "degraded", "text", "do", now, now if ended else None, 1.0, metric=metric)
    return [(s.kind, s.target) for s in next_steps(row)]


def test_alerts_about_an_object_lead_to_its_operation(world: World) -> None:
    assert next_steps_of("broker_down", "2") == [("open_broker", ["2"]), ("drain_broker", ["2"])]
    assert next_steps_of("broker_silent", "2") == [("open_broker", ["2"])]
    assert next_steps_of("disk_failed", "2") == [("open_broker", ["2"]), ("drain_broker", ["2"])]
    assert next_steps_of("disk_low", "2") == [("open_broker", ["2"])], "no topic has bytes on it"
    assert next_steps_of("disk_filling", "2") == [("open_broker", ["2"])]
    assert next_steps_of("disk_slow", "2") == [("demote_broker", ["2", "0"]), ("open_broker", ["2"])]
    Broker.objects.filter(pk=2).update(configs={LEADERSHIP: "false"})
    assert next_steps_of("disk_slow", "2") == [("open_broker", ["2"])], "its page restores leadership"
    assert next_steps_of("move_stuck", "7") == [("open_move", ["7"])]
    assert next_steps_of("move_will_not_finish", "7") == [("throttle_move", ["7"])]
    assert next_steps_of("archive_failed", "3") == [("open_job", ["3"]), ("resume_archive", ["3"])]


def test_a_full_disk_leads_to_the_retention_of_the_topic_with_the_most_bytes_on_it(world: World) -> None:
    world.topic("everywhere", (1, 2), (1, 2))
    world.topic("here", (3,))
    ObservedTopic.objects.filter(name="everywhere").update(size_bytes=1000)
    ObservedTopic.objects.filter(name="here").update(size_bytes=900)
    ObservedReplica.objects.filter(topic_name="here").update(size_bytes=900)
    ObservedReplica.objects.filter(topic_name="everywhere").update(size_bytes=500)
    Broker.objects.update(free_bytes=None)
    move, broker = ("move_off_broker", ["3", "here", "0=1"]), ("open_broker", ["3"])
    assert next_steps_of("disk_low", "3") == [move, ("raise_retention", ["here"]), broker]
    assert next_steps_of("disk_filling", "3") == [move, ("raise_retention", ["here"]), broker]
    Broker.objects.update(free_bytes=1000)
    assert next_steps_of("disk_low", "3") == [("raise_retention", ["here"]), broker], (
        "no other broker has room for 900 bytes"
    )
    assert next_steps_of("disk_low", "2")[-2] == ("raise_retention", ["everywhere"])
    Broker.objects.filter(pk=1).update(free_bytes=1200)
    assert next_steps_of("disk_low", "3") == [move, ("raise_retention", ["here"]), broker]


def test_a_full_disk_leads_to_the_running_move_that_fills_it(world: World) -> None:
    world.topic("flights", (1, 2))
    move = plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    target = next(iter(set(MovePartition.objects.get(move_id=move).replicas_to) - {1, 2}))
    assert next_steps_of("disk_low", str(target)) == [("open_broker", [str(target)])], "the move is only planned"
    Move.objects.filter(pk=move).update(state="running")
    MovePartition.objects.filter(move_id=move).update(bytes_total=1_000, bytes_done=200)
    assert next_steps_of("disk_low", str(target))[0] == ("open_filling_move", [str(move), str(target), "800"])
    MovePartition.objects.filter(move_id=move).update(bytes_total=None, bytes_done=None)
    assert next_steps_of("disk_low", str(target))[0] == ("open_filling_move", [str(move), str(target), ""])
    assert next_steps_of("disk_low", "1") == [("open_broker", ["1"])], "the move copies nothing to this broker"
    other = Move.objects.create(**{f: getattr(Move.objects.get(), f) for f in ("scope", "state", "actor")})
    MovePartition.objects.filter(move_id=move).update(active=True)
    part = MovePartition.objects.get(move_id=move)
    part.pk, part.move, part.partition = None, other, 9
    part.save()
    assert next_steps_of("disk_low", str(target)) == [("open_filling_moves", ["2"]), ("open_broker", [str(target)])]


def test_a_failed_move_is_rolled_back_if_a_partition_has_moved(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    move = Move.objects.get(pk=plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk)
    move.parts.update(state="rejected", active=False)
    page, again = ("open_move", [str(move.pk)]), ("plan_again", [str(move.pk), "drain", "broker=1"])
    assert next_steps_of("move_failed", str(move.pk)) == [page, again], "a roll back would change no partition"
    MovePartition.objects.filter(pk=min(move.parts.values_list("pk", flat=True))).update(state="done")
    assert next_steps_of("move_failed", str(move.pk)) == [("roll_back_move", [str(move.pk)]), page]
    assert next_steps_of("move_failed", "777") == []


@pytest.mark.parametrize(
    ("scope", "values"),
    [
        (DrainScope(rack="b1"), ["drain", "rack=b1"]),
        (FillScope(broker=3), ["fill", "broker=3"]),
        (TopicScope("orders", (2, 3)), ["topic", "topic=orders", "over=2", "over=3"]),
        (ReplicationFactorScope("orders", 3), ["replication_factor", "topic=orders", "factor=3"]),
        (RebalanceScope(("disk",), 0.2), ["rebalance", "goal=disk", "tolerance=0.2"]),
        (
            PartitionsScope((Placement("orders", 0, (1, 2)), Placement("orders", 4, (3, 1)))),
            ["partitions", "topic=orders", "p=0", "r0=1,2", "p=4", "r4=3,1"],
        ),
        (PartitionsScope((Placement("orders", 0, (1,)), Placement("bills", 0, (1,)))), None),
        (PartitionsScope((Placement("orders", 0, (1,)),), count=9_000), None),
    ],
)
def test_the_form_of_a_new_move_gets_the_scope_of_the_failed_one(
    world: World, scope: Scope, values: list[str] | None
) -> None:
    move = str(Move.objects.create(scope=scope, state="failed").pk)
    again = [] if values is None else [("plan_again", [move, *values])]
    assert next_steps_of("move_failed", move) == [("open_move", [move]), *again]
    assert [(s.kind, s.target) for s in plan_move_again(int(move), "failed")] == again
    assert plan_move_again(int(move), "done") == []


def test_a_resolved_alert_and_a_silent_monitor_have_no_operation(world: World) -> None:
    assert next_steps_of("broker_down", "2", ended=True) == next_steps_of("monitor_silent") == []
    assert next_steps_of("zookeeper_away") == [], "no supervisor keeps it stopped"
    assert next_steps_of("worker_silent") == next_steps_of("spark_worker_silent") == []


def write_processes(settings: Any, tmp_path: Path, **names: str) -> None:
    """State of each process of a running `weir up`."""
    own = supervisor.started_at(os.getpid())
    rows = [{"name": n, "pid": os.getpid(), "started": own, "state": s, "exit_code": None} for n, s in names.items()]
    state = {"supervisor": {"pid": os.getpid(), "started": own}, "processes": rows}
    (tmp_path / "processes.json").write_text(json.dumps(state))
    settings.WEIR = replace(settings.WEIR, data_dir=tmp_path)


def test_each_stopped_controller_can_be_started(world: World, settings: Any, tmp_path: Path) -> None:
    names = {"controller-1": "running", "controller-2": "stopped", "controller-3": "stopped", "broker-1": "stopped"}
    write_processes(settings, tmp_path, **names)
    assert next_steps_of("no_controller") == [("start_process", ["controller-2"]), ("start_process", ["controller-3"])]


def test_too_few_in_sync_replicas_lead_to_a_partition_that_has_them(world: World) -> None:
    """The alert named ledger-1, and its button opened flights-0, which only lacked a replica."""
    world.topic("flights", (1, 2, 3))
    world.topic("ledger", (1, 2, 3), (1, 2, 3), configs={"min.insync.replicas": "2"})
    world.put("flights", 0, isr=(1, 2))
    world.put("ledger", 0, isr=(1, 2))
    world.put("ledger", 1, isr=(1,))
    ObservedTopic.objects.filter(name="ledger").update(under_min_isr=1)
    assert next_steps_of("partitions_under_min_isr") == [("open_partition", ["ledger", "1"])]
    assert next_steps_of("partitions_under_replicated") == [("open_partition", ["flights", "0"])]


def test_the_first_partition_with_the_problem_is_opened(world: World) -> None:
    assert next_steps_of("partitions_offline") == []
    world.topic("orders", (1, 2), (2, 3))
    world.put("orders", 0, isr=(1,))
    world.offline("orders", 1)
    assert next_steps_of("partitions_under_replicated") == [("open_partition", ["orders", "0"])]
    assert next_steps_of("partitions_offline") == [
        ("open_partition", ["orders", "1"]),
        ("propose_election", ["orders", "1"]),
    ]


def test_a_partition_without_a_live_replica_needs_a_broker_and_no_election(
    world: World, settings: Any, tmp_path: Path
) -> None:
    """The election was offered although the request for it was always rejected."""
    world.topic("orders", (1, 2))
    world.offline("orders", 0)
    page, election = ("open_partition", ["orders", "0"]), ("propose_election", ["orders", "0"])
    assert next_steps_of("partitions_offline") == [page, election]
    world.down(1)
    assert next_steps_of("partitions_offline") == [page, election]
    world.down(2)
    assert next_steps_of("partitions_offline") == [page]
    write_processes(settings, tmp_path, **{"broker-1": "stopped", "broker-2": "stopped", "broker-3": "stopped"})
    start = ("start_process", ["broker-1"])  # only broker 1 has all records
    assert next_steps_of("partitions_offline") == [start, page]


def test_a_damaged_replica_without_a_leader_has_nothing_to_be_copied_from(world: World) -> None:
    world.topic("orders", (1, 2))
    topic_id = world.image.topic_ids["orders"]
    ReplicaDamageReport.objects.create(topic_id=topic_id, topic_name="orders", partition=0, broker_id=2, kind="disk")
    assert next_steps_of("copies_damaged") == [("recover_replica", ["orders", "0", "2"])]
    world.offline("orders", 0)
    assert next_steps_of("copies_damaged") == [("open_partition", ["orders", "0"])]


def test_the_record_at_the_committed_offset_of_a_stalled_group_is_read(world: World) -> None:
    row = ConsumerGroup.objects.create(group_id="billing", state="Stable", observed_at=timezone.now())
    assert next_steps_of("group_stalled", "billing") == [("open_group", ["billing"])]
    assert next_steps_of("group_retention", "billing") == [("open_group", ["billing"])]
    for index, lag_ms in ((0, 5), (1, 900)):
        GroupPartition.objects.create(
            group=row, topic="orders", index=index, committed=77, lag_ms=lag_ms, observed_at=timezone.now()
        )
    assert next_steps_of("group_stalled", "billing")[0] == ("read_record", ["orders", "1", "77"])
    assert next_steps_of("group_retention", "billing")[0] == ("raise_retention", ["orders"])
    assert next_steps_of("group_stopped", "billing") == [("open_group", ["billing"])]
    assert next_steps_of("group_stopped") == [], "an alert about many groups has no single object"


def test_the_damaged_replica_the_drifted_topic_and_the_unknown_change_are_named(world: World) -> None:
    assert next_steps_of("copies_damaged") == next_steps_of("drift") == next_steps_of("changes_unknown") == []
    world.topic("orders", (1, 2), row=False)
    topic_id = world.image.topic_ids["orders"]
    ReplicaDamageReport.objects.create(topic_id=topic_id, topic_name="orders", partition=0, broker_id=2, kind="disk")
    change = Change.objects.create(
        actor="a", verb="topic.alter", object_kind="topic", object_name="x", outcome="unknown"
    )
    assert next_steps_of("copies_damaged") == [("recover_replica", ["orders", "0", "2"])]
    assert next_steps_of("drift") == [("open_topic", ["orders"])]
    assert next_steps_of("changes_unknown") == [("open_change", [str(change.pk)])]


def test_an_unusual_metric_leads_to_the_charts_of_its_object(world: World) -> None:
    """Its alert said what to look at and had no button."""
    list_of_anomalies = ("open_anomalies", [])
    for kind, name, step in (
        (HistorySubject.TOPIC, "flights", "open_charts"),
        (HistorySubject.GROUP, "a of b", "open_group"),
        (HistorySubject.SHARE_GROUP, "a:b", "open_share_group"),
        (HistorySubject.BROKER, "3", "open_broker"),
    ):
        metric = AlertMetric("lag_s", kind, name)
        assert next_steps_of("anomaly", "a text", metric=metric) == [(step, [name]), list_of_anomalies]
    cluster = AlertMetric("records_per_s", HistorySubject.CLUSTER, "")
    assert (
        next_steps_of("anomaly", "a text", metric=cluster) == next_steps_of("anomaly", "a text") == [list_of_anomalies]
    )
