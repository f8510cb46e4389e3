"""Seed rows of a running cluster: a topic with problems, a topic that moves, groups with and without lag, jobs,
changes. For the unit tests of the console and the browser tests on seeded rows."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.domain.progress import Sample
from controlplane.models import (
    ArchiveBatch,
    ArchiveJob,
    Broker,
    ConsumerGroup,
    GroupPartition,
    Move,
    MovePartition,
    ObservedPartition,
    ObservedReplica,
    ObservedTopic,
    ReplicaDamageReport,
    SparkJob,
    SparkRun,
)
from controlplane.monitoring.history import HistoryRecorder
from controlplane.services import (
    acls,
    alerts,
    brokers,
    cluster_documents,
    move_worker,
    moves,
    plans,
    proposals,
    quotas,
    recovery,
    rolling_restart,
    routes,
    topics,
    users,
)
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.history_rows import record
from tests.unit.controlplane.world import World


def seed(extra_topics: int = 0) -> dict[str, Any]:
    world = World(brokers=4)
    for name, parts, size in (
        ("flights", 6, 48_000_000),
        ("orders", 3, 7_300_000),
        ("payments.audit", 2, 900_000),
        ("__consumer_offsets", 4, 12_000),
    ):
        world.topic(name, *[tuple((i + j) % 4 + 1 for j in range(3)) for i in range(parts)], size=size)
    metrics(world)
    history()
    world.put("orders", 1, isr=(2, 3))
    draw = random.Random(7)
    for n in range(extra_topics):
        world.topic(f"app-{n:03d}.events", tuple(draw.sample(range(1, 5), 3)), size=draw.randrange(10**9))
    group("billing", {("orders", i): (4000 + i, 4000 + i) for i in range(3)}, "healthy")
    group("slow-reader", {("flights", i): (1200 * i, 9000) for i in range(6)}, "falling_behind")
    group("nightly", {("payments.audit", 0): (None, 300)}, "stopped", members=0)
    alice = {"actor": "alice"}
    move = moves.plan_move(
        parse_scope(
            {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3, 4]}]}
        ),
        comment="broker 1 is full",
        throttle_bytes_per_s=2_000_000,
        **alice,
    )
    moves.start_move(move.pk, **alice)
    move_worker.advance_move(move.pk)
    world.begin_move("flights", 0, (2, 3, 4))
    ObservedReplica.objects.filter(partition__topic__name="flights", partition__index=0, broker_id=4).update(
        size_bytes=20_000_000
    )
    ObservedPartition.objects.filter(topic__name="flights").update(size_bytes=48_000_000)
    move_worker.advance_move(move.pk)
    move_worker.advance_move(move.pk)
    record_copy_samples(move.pk)
    against_a_rejection(world)
    kept_plans()
    recovery.recover_replica("orders", 0, 3, comment="bad disk", **alice)
    brokers.cordon(4, comment="disk is old", **alice)
    rolling_restart.advance_restart(rolling_restart.start_restart(comment="new kernel", **alice).pk)
    world.project()
    for kind, text in (
        ("corrupt", "00000000000000000000.log: the batch at position 4096 is damaged"),
        ("lost", "its folder was gone"),
    ):
        ReplicaDamageReport.objects.create(
            topic_id=world.image.topic_ids["orders"],
            topic_name="orders",
            partition=2,
            broker_id=3,
            kind=kind,
            detail=text,
        )
    acls.create_acl(
        resource_type="topic",
        resource_name="orders",
        principal="User:billing",
        operation="read",
        permission="allow",
        **alice,
    )
    users.create_user("billing", password="only a seed", **alice)
    topics.create_topic("fresh", partitions=2, replication_factor=3, configs={"retention.ms": "60000"}, **alice)
    try:
        topics.create_topic("orders", **alice)
    except topics.Rejected:
        pass
    job = ArchiveJob.objects.create(
        topics=["flights"],
        state="running",
        actor="alice",
        rows=5200,
        batches=2,
        heartbeat_at=timezone.now(),
        folder="/lake/1",
    )
    for batch in range(2):
        ArchiveBatch.objects.create(
            job=job,
            batch=batch,
            topic="flights",
            partition=0,
            first_offset=batch * 2600,
            next_offset=(batch + 1) * 2600,
            rows=2600,
        )
    spark_jobs()
    documents()
    alerts.evaluate()
    route()
    return {"world": world, "move": move.pk, "job": job.pk}


def documents() -> None:
    """Plan 1 is applied and has drift, plan 2 waits."""
    limits = {"producer_byte_rate": 1_048_576, "consumer_byte_rate": 4_194_304}
    document: dict[str, Any] = {
        "owner": "payments",
        "quotas": [{"entity": {"user": "payments", "client-id": name}, "limits": limits} for name in ("mail", "shop")],
    }
    row = cluster_documents.plan_document(document, actor="ada", comment="limits of payments")
    cluster_documents.apply_plan(row.pk, row.digest, actor="ada", comment="limits of payments")
    quotas.set_quota({"user": "payments", "client-id": "shop"}, {"producer_byte_rate": 9_000_000.0}, actor="bob")
    topics_wanted = [
        {"name": "flights", "configs": {"retention.ms": 86_400_000}},
        {"name": "payments.new", "partitions": 12},
    ]
    later = {"owner": "payments", "quotas": document["quotas"][1:], "topics": topics_wanted}
    cluster_documents.plan_document(later, prune=True, actor="ada", comment="one day of flights")


def spark_jobs() -> None:
    """An archive that runs, and a profile with a report and a schedule."""
    now = timezone.now()
    archive = SparkJob.objects.create(
        name="orders to the lake",
        kind="archive",
        actor="alice",
        parameters={"topics": ["orders"], "value_format": "json", "key_buckets": 0, "until_end": False},
    )
    offsets = {
        "title": "Archived offsets",
        "columns": ["topic", "partition", "next offset"],
        "rows": [["orders", p, 4000 + p] for p in range(3)],
        "rows_total": 3,
    }
    SparkRun.objects.create(
        job=archive,
        state="running",
        parameters=archive.parameters,
        actor="alice",
        started_at=now - timedelta(hours=2),
        heartbeat_at=now,
        status={
            "phase": "running",
            "rows": 12_003,
            "rows_per_second": 812,
            "behind_records": 40,
            "dead_letters": 3,
            "batches": 9,
            "report": [offsets],
        },
    )
    profile = SparkJob.objects.create(
        name="nightly profile",
        kind="profile",
        actor="bea",
        parameters={"topics": ["flights", "orders"], "records_per_partition": 100_000},
        schedule="0 3 * * *",
        next_run_at=now + timedelta(hours=5),
        comment="before the quarter ends",
    )
    SparkRun.objects.create(
        job=profile,
        state="failed",
        parameters=profile.parameters,
        actor="schedule",
        restarts=5,
        note="the cluster did not respond for 90 s",
        started_at=now - timedelta(hours=19),
        finished_at=now - timedelta(hours=18),
    )


def against_a_rejection(world: World) -> None:
    """A move below min.insync.replicas that waits for the approval of a second person."""
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"}, size=5_000_000)
    to_4 = {"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [4]}]}
    move = moves.plan_move(
        parse_scope(to_4), actor="bea", comment="the disks of 1 and 2 are being changed", override=True
    )
    proposals.propose(
        "move.approve", str(move.pk), {"start": True}, actor="bea", comment="the disks of 1 and 2 are being changed"
    )


def kept_plans() -> None:
    """Two plans that overlap; one of them is approved."""
    over = {"kind": "topic", "topic": "orders", "brokers": [1, 3, 4]}
    spread = plans.save_plan(parse_scope(over), name="orders off broker 2", actor="bea", comment="its rack is moved")
    plans.approve_plan(spread.pk, spread.digest, actor="alice", comment="looked at it")
    by_hand = [{"topic": "orders", "partition": i, "replicas": [1, 3, 4]} for i in range(3)]
    plans.save_plan(
        parse_scope({"version": 1, "partitions": by_hand}), actor="bea", comment="orders off broker 2 first"
    )


def metrics(world: World) -> None:
    """The responses that the brokers would have sent."""
    now = timezone.now()
    for p in ObservedPartition.objects.select_related("topic"):
        end = 9000 if p.topic.name == "flights" else 4000 + p.index
        p.start_offset, p.end_offset, p.sampled_at = 0, end, now
        p.save()
        ObservedReplica.objects.filter(partition=p).update(end_offset=end, lag_records=0, sampled_at=now)
    for t in ObservedTopic.objects.all():
        t.size_bytes = sum(p.size_bytes or 0 for p in t.partitions.all())
        t.records = sum((p.end_offset or 0) for p in t.partitions.all())
        t.records_per_s = 812.4 if t.name == "flights" else 0.0
        t.save()
    Broker.objects.update(answered=True, sampled_at=now, size_bytes=61_000_000)


def history() -> None:
    """Ten minutes of recorded values, with a gap of one minute."""
    now = int(time.time()) // 10 * 10
    recorder = HistoryRecorder()
    for i in range(60):
        if 30 <= i < 36:
            continue
        wave = i % 9
        metrics: dict[tuple[str, str], float] = {
            ("cluster", "records_per_s"): 800 + 10 * wave,
            ("cluster", "lag_records"): 18_000 + 400 * wave,
            ("cluster", "size_bytes"): 56_000_000 + 10_000 * i,
            ("cluster", "under_replicated"): 1,
            ("cluster", "offline"): 0,
            ("topic:flights", "records_per_s"): 800 + 10 * wave,
            ("topic:flights", "size_bytes"): 48_000_000 + 10_000 * i,
            ("group:slow-reader", "lag_records"): 18_000 + 400 * wave,
            ("group:slow-reader", "lag_s"): 20 + wave,
            ("group:slow-reader", "consumed_per_s"): 500 + wave,
            ("broker:1", "disk_used_bytes"): 300_000_000_000 + 10_000_000 * i,
            ("broker:1", "size_bytes"): 61_000_000 + 10_000 * i,
            ("broker:1", "replicas_in_sync"): 11,
            ("broker:1", "replicas_out_of_sync"): 1 if i > 40 else 0,
            ("broker:1", "leaders"): 4,
            ("partition:orders:1", "records_per_s"): 3 + wave,
            ("partition:orders:1", "size_bytes"): 7_300_000 + 100 * i,
            ("partition:orders:1", "replicas_in_sync"): 2 if i > 40 else 3,
        }
        record(recorder, {now - 10 * (60 - i): metrics})


def record_copy_samples(move_id: int) -> None:
    """Two minutes of samples of a throttled copy that becomes faster."""
    now, done = time.time() - 120, 0
    samples: list[Sample] = []
    for i in range(41):
        samples.append(Sample(now + 3 * i, 48_000_000 - done, done))
        done += 3 * (150_000 + 20_000 * (i % 5) if i < 25 else 320_000 + 30_000 * (i % 3))
    Move.objects.filter(pk=move_id).update(
        samples=samples, bytes_per_s=345_000.0, ends_in_s_min=62.0, ends_in_s_max=118.0, throttle_bytes_per_s=400_000
    )
    MovePartition.objects.filter(move_id=move_id).update(bytes_per_s=345_000.0)


def route() -> None:
    bindings = [
        {"target": "paid", "match": {"kind": "key", "value": "paid"}},
        {"target": "payments.audit", "match": {"kind": "pattern", "value": "*.card.#"}, "remove_headers": ["trace"]},
        {"target": "sample", "match": {"kind": "all"}, "sample_percent": 1},
    ]
    definition = {"source": "orders", "start": "latest", "enabled": True, "owner": "payments", "bindings": bindings}
    routes.create_route("orders-by-kind", definition, actor="ada", comment="billing")
    group("weir.route.orders-by-kind", {("orders", i): (400 * i, 1_000) for i in range(3)}, "healthy", members=0)


def group(name: str, places: dict[tuple[str, int], tuple[int | None, int]], status: str, members: int = 2) -> None:
    lags = [end - at for at, end in places.values() if at is not None]
    row = ConsumerGroup.objects.create(
        group_id=name,
        state="Stable" if members else "Empty",
        protocol_type="consumer",
        assignor="range" if members else "",
        coordinator=2,
        member_count=members,
        lag_records=sum(lags) if lags else None,
        lag_ms_max=sum(lags) if lags else None,
        partitions_unknown=len(places) - len(lags),
        status=status,
        observed_at=timezone.now() - timedelta(seconds=1),
        members=[
            {"member_id": f"{name}-{m}", "client_id": f"{name}-client", "host": "127.0.0.1", "partitions": []}
            for m in range(members)
        ],
    )
    for (topic, index), (at, end) in places.items():
        GroupPartition.objects.create(
            group=row,
            topic=topic,
            index=index,
            committed=at,
            end_offset=end,
            lag_records=None if at is None else end - at,
            lag_ms=None if at is None else end - at,
            status=status,
            client_id=f"{name}-client" if members else "",
            host="127.0.0.1" if members else "",
            observed_at=timezone.now(),
        )
