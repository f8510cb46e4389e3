"""Alerts for pages on seeded rows: a history of resolved ones, and a night with an open alert of each kind (`tests.browser.seeded_server --night`).

Invariant: `alerts.evaluate` writes each alert, from rows that the monitor could have written. Only alerts that exclude each other, such as a missing
controller and a missing ZooKeeper, come from more than one state of the cluster.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from controlplane.domain.alert_types import AlertFacts, AlertKind, ComputedAlert

if TYPE_CHECKING:
    from tests.unit.controlplane.world import World

NUMBERS = {kind: n for n, kind in enumerate((k for k in AlertKind if k is not AlertKind.MONITOR_SILENT), 101)} | {
    AlertKind.MONITOR_SILENT: 0
}
"""Number of the open alert of each kind in the night. The alert of a silent monitor has no row, and is open only while the data is old."""

DOWN = 3
"""The broker that is down in the night."""
GIGABYTE = 10**9


def create_resolved_alerts(world: World) -> None:
    """Alerts of the last days that are resolved: a broker was down, ZooKeeper did not respond, a disk was low, a group was behind."""
    from django.utils import timezone

    from controlplane.models import Alert, AlertEntry, Broker, Cluster, ConsumerGroup
    from controlplane.services import alerts, incidents

    before = list(Alert.objects.values_list("pk", flat=True))
    world.down(DOWN)
    Cluster.objects.update(zookeeper_connected=False)
    Broker.objects.filter(broker_id=2).update(total_bytes=500 * GIGABYTE, free_bytes=19 * GIGABYTE)
    ConsumerGroup.objects.filter(pk="billing").update(
        status="falling_behind", lag_records=912_000, lag_ms_max=760_000, consumed_per_s=240.0, produced_per_s=410.0
    )
    alerts.evaluate()
    found = Alert.objects.exclude(pk__in=before).order_by("pk")
    incidents.acknowledge(found.get(kind=AlertKind.BROKER_DOWN).pk, actor="alice")
    incidents.add_note(found.get(kind=AlertKind.BROKER_DOWN).pk, "its power supply was replaced", actor="alice")
    world.image.brokers[DOWN] = replace(world.image.brokers[DOWN], alive=True)
    world.project()
    Cluster.objects.update(zookeeper_connected=True)
    Broker.objects.filter(broker_id=2).update(free_bytes=180 * GIGABYTE)
    ConsumerGroup.objects.filter(pk="billing").update(
        status="healthy", lag_records=0, lag_ms_max=0, consumed_per_s=None, produced_per_s=None
    )
    alerts.evaluate()
    now = timezone.now()
    for n, row in enumerate(found.filter(ended_at__isnull=False)):
        since, lasted = now - timedelta(hours=5 + 31 * n), timedelta(minutes=4 + 37 * n)
        Alert.objects.filter(pk=row.pk).update(since=since, ended_at=since + lasted)
        entries = list(row.entries.order_by("pk"))
        for place, entry in enumerate(entries):
            AlertEntry.objects.filter(pk=entry.pk).update(at=since + lasted * place / max(1, len(entries) - 1))


def ended_by_a_threshold() -> None:
    """The alert of a low disk, which ended because an operator changed the threshold for the broker."""
    from controlplane.models import Broker
    from controlplane.services import alert_thresholds, alerts

    before = Broker.objects.get(broker_id=4)
    Broker.objects.filter(broker_id=4).update(total_bytes=500 * GIGABYTE, free_bytes=30 * GIGABYTE)
    alerts.evaluate()
    alert_thresholds.override_threshold("disk_free_low", "4", 5, actor="alice", comment="the disk holds archives only")
    alerts.evaluate()
    Broker.objects.filter(broker_id=4).update(total_bytes=before.total_bytes, free_bytes=before.free_bytes)


def every_kind(world: World) -> None:
    """An open alert of each kind, with its number of NUMBERS."""
    import pytest
    from django.db import transaction
    from django.utils import timezone

    from controlplane.domain import alert
    from controlplane.models import Alert, AlertEntry
    from controlplane.services import alerts, incidents

    _brokers(world)
    _groups(world)
    _messages()
    _jobs_and_changes(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alert, "alerts", _of_all_states(alert.alerts))
        alerts.evaluate()
    now = timezone.now()
    with transaction.atomic():
        for kind, number in NUMBERS.items():
            row = Alert.objects.filter(kind=kind, ended_at__isnull=True).order_by("pk").first()
            if row is None:
                continue  # that of a silent monitor
            # Broker 3 was down before the other problems began. What its failure explains began after it.
            minutes = {AlertKind.BROKER_DOWN: 26, AlertKind.PARTITIONS_OFFLINE: 26}.get(kind, 0)
            if kind.startswith(("group_", "share_", "disk_", "dead_", "half_", "delayed_", "conn", "archive")):
                minutes = 7 + number % 11 * 13
            AlertEntry.objects.filter(alert_id=row.pk).update(alert_id=number, at=now - timedelta(minutes=minutes))
            Alert.objects.filter(pk=row.pk).update(id=number, since=now - timedelta(minutes=minutes))
    incidents.acknowledge(NUMBERS[AlertKind.BROKER_DOWN], actor="alice")
    incidents.add_note(NUMBERS[AlertKind.BROKER_DOWN], "asked the data centre to look at its power", actor="alice")
    incidents.silence(AlertKind.ANOMALY, None, 240, actor="alice", comment="load test until 06:00")


def kept_stopped() -> None:
    """The file of a local supervisor that keeps some processes stopped, so that pages offer their start."""
    from django.conf import settings

    from controlplane.clients.supervisor import started_at

    own = {"pid": os.getpid(), "started": started_at(os.getpid())}
    names = (f"broker-{DOWN}", "controller-1", "zookeeper", "worker")
    stopped = [{"name": n, "state": "stopped", "pid": None, "started": None, "exit_code": 0} for n in names]
    (settings.WEIR.data_dir / "processes.json").write_text(json.dumps({"supervisor": own, "processes": stopped}))


def _of_all_states(
    compute: Callable[[AlertFacts], list[ComputedAlert]],
) -> Callable[[AlertFacts], list[ComputedAlert]]:
    """The alerts of the facts, and of the same cluster with all brokers, without a controller, and without ZooKeeper."""

    def computed_alerts(facts: AlertFacts) -> list[ComputedAlert]:
        alive = tuple(replace(b, alive=True) for b in facts.brokers)
        states = (
            facts,
            replace(facts, brokers=alive),
            replace(facts, zookeeper=True, controller=None),
            replace(facts, zookeeper=False),
        )
        found: dict[tuple[str, str], ComputedAlert] = {}
        for state in states:
            for a in compute(state):
                found.setdefault((a.kind, a.subject), a)
        return list(found.values())

    return computed_alerts


def _brokers(world: World) -> None:
    """Broker 3 is down, broker 4 does not respond, broker 1 and 2 have problems with their disks, and no worker runs."""
    from django.utils import timezone

    from brokerd.cluster.model import NO_BROKER_EPOCH, NO_LEADER
    from controlplane.models import Broker, Cluster, ConnectCluster, HangingTransaction
    from tests.unit.controlplane.forecast_runs import DISK, finished_run

    now = timezone.now()
    Cluster.objects.update(
        worker_polled_at=now - timedelta(minutes=4), spark_worker_polled_at=now - timedelta(minutes=5)
    )
    world.topic("inventory", (DOWN,), (4, 1), size=3_200_000)
    world.topic("stock", (1, DOWN), (1, 2), configs={"min.insync.replicas": "2"}, size=9_100_000)
    for topic in world.image.topics.values():
        for index, state in topic.partitions.items():
            isr = tuple(m for m in state.isr if m.broker_id != DOWN)
            if isr == state.isr:
                continue
            changes: dict[str, Any] = {"isr": isr, "partition_epoch": state.partition_epoch + 1}
            if not isr:
                changes |= {"last_isr": (DOWN,), "leader": NO_LEADER, "leader_broker_epoch": NO_BROKER_EPOCH}
            elif state.leader == DOWN:
                changes |= {"leader": isr[0].broker_id, "leader_broker_epoch": isr[0].broker_epoch}
            topic.partitions[index] = replace(state, **changes)
    world.down(DOWN)
    brokers = Broker.objects
    brokers.update(total_bytes=500 * GIGABYTE, free_bytes=180 * GIGABYTE)
    brokers.filter(broker_id=4).update(answered=False, sampled_at=now - timedelta(minutes=9))
    slow = {"/data/disk-1": 2_800}
    brokers.filter(broker_id=2).update(free_bytes=19 * GIGABYTE, dirs_slow=list(slow), dir_probe_ms=slow)
    rejected = {
        "principal": "User:CN=deployment-pipeline.production.example.com,OU=Data Platform,O=Example,C=DE",
        "host": "10.1.200.17",
        "client_id": "fulfilment-shipment-tracking",
        "reason": "unauthorized",
        "per_min": 42.0,
        "since_ms": int((now - timedelta(minutes=31)).timestamp() * 1000),
        "operation": "write",
        "resource_type": "topic",
        "resource_name": "flights",
    }
    login = {"user": "billing", "mechanism": "SCRAM-SHA-256", "failure": "wrong_password", "count": 90}
    failed = {"reason": "authentication_failed", "principal": "", "host": "10.0.0.77", "client_id": "", "operation": ""}
    brokers.filter(broker_id=1).update(
        dirs_failed=["/data/disk-2", "/data/disk-3"],
        dirs_hung=["/data/disk-3"],
        refused_clients=[rejected, rejected | failed | {"logins": [login]}],
    )
    days = {name: (now + timedelta(days=n)).isoformat() for name, n in (("low", 0.5), ("median", 0.8), ("until", 30))}
    forecast = {"subject": "broker:1", "made_at": (now - timedelta(hours=1)).isoformat(), "high": None, **days}
    finished_run({**DISK, **forecast, "value": 320.0 * GIGABYTE, "level": 500.0 * GIGABYTE})
    hanging = HangingTransaction.objects.create(
        topic="orders",
        partition=1,
        producer_id=4711,
        start_offset=1234,
        verdict="unknown_producer",
        checked_at=now,
    )
    HangingTransaction.objects.filter(pk=hanging.pk).update(found_at=now - timedelta(hours=2))
    ConnectCluster.objects.create(
        name="etl",
        tried_at=now,
        failures=[{"name": "orders-to-db", "has_failed": False, "tasks": 2, "failed_tasks": [1]}],
    )
    ConnectCluster.objects.create(
        name="warehouse", tried_at=now, silent_since=now - timedelta(minutes=14), problem="Connection refused"
    )


def _groups(world: World) -> None:
    from django.utils import timezone

    from controlplane.models import ConsumerGroup, GroupPartition, ShareGroupPartition
    from tests.unit.console.seed import group

    groups = ConsumerGroup.objects
    group("fraud-check", {("flights", n): (100 * n, 9_000) for n in range(3)}, "data_lost")
    groups.filter(pk="fraud-check").update(lost_records=48_210, lag_ms_max=5_400_000)
    group("reporting", {("orders", n): (10 + n, 4_000) for n in range(3)}, "falling_behind")
    soon = {"retention_in_s": 1_260.0, "retention_limit": "retention.ms"}
    groups.filter(pk="reporting").update(
        retention_partition="orders-2", consumed_per_s=12.0, produced_per_s=80.0, lag_ms_max=900_000, **soon
    )
    GroupPartition.objects.filter(group_id="reporting", index=2).update(**soon)
    group("mail-sender", {("orders", n): (3_990, 4_000 + n) for n in range(3)}, "stalled")
    groups.filter(pk="mail-sender").update(lag_ms_max=2_520_000)
    groups.filter(pk="slow-reader").update(consumed_per_s=1_200.0, produced_per_s=2_000.0)
    ShareGroupPartition.objects.update_or_create(
        group_id="mail",
        topic="invoices",
        index=0,
        defaults={
            "start_offset": 120,
            "lag_records": 4_120,
            "lag_ms": 5_400_000,
            "status": "stalled",
            "member_count": 2,
            "observed_at": timezone.now(),
        },
    )


def _messages() -> None:
    """Half messages, delayed messages and dead letters beyond their thresholds."""
    from django.utils import timezone

    from controlplane.models import ShareGroupLetters, TopicMessages

    now = timezone.now()
    for topic, values in (
        ("checkout", {"half_undecided": 24, "half_oldest_at": now - timedelta(minutes=40), "half_expired": 3}),
        ("payments", {"delayed_pending": 401, "delayed_next_at": now - timedelta(minutes=12)}),
        ("invoices", {"dead_letters": 6_012, "dead_letters_grown": 5_900}),
    ):
        TopicMessages.objects.update_or_create(topic=topic, defaults={**values, "sampled_at": now})
    letters = {"written": 12, "unwritten": 2_310, "reason": "topic-missing", "unwritten_at": now, "changed_at": now}
    ShareGroupLetters.objects.update_or_create(group_id="mail", topic="invoices", broker_id=1, defaults=letters)


def _jobs_and_changes(world: World) -> None:
    from django.utils import timezone

    from controlplane.models import Anomaly, ArchiveJob, Change
    from controlplane.services import anomalies, document_drift

    now = timezone.now()
    waiting = ArchiveJob.objects.create(topics=["flights"], actor="alice", folder="/lake/3")
    ArchiveJob.objects.filter(pk=waiting.pk).update(created_at=now - timedelta(minutes=5))
    ArchiveJob.objects.create(
        topics=["orders"],
        state="failed",
        actor="alice",
        finished_at=now,
        folder="/lake/2",
        note="the lake has no space left",
    )
    Change.objects.create(
        actor="bea", verb="topic.alter", object_kind="topic", object_name="orders", outcome="unknown", comment="one day"
    )
    Change.objects.create(
        actor="controller",
        verb="topic.elect_unclean_automatically",
        object_kind="topic",
        object_name="orders",
        outcome="confirmed",
        before={"1": {"leader": -1, "isr": [2]}},
        after={"1": {"leader": 3, "isr": [3]}},
        detail="unclean.leader.election.enable=true",
    )
    world.topic("imported.before", (1, 2), row=False)
    document_drift.measure()
    anomalies.switch_alerts("topic.records_per_s", True, actor="alice")
    low = {"state": "low", "value": 20, "usual": 1000, "distance": -9.8, "baseline": "days", "values": 7}
    Anomaly.objects.update_or_create(
        subject="topic:flights",
        metric="records_per_s",
        defaults={**low, "since": now - timedelta(hours=1), "checked_at": now},
    )
