"""Rows and image of the cluster of `bench.console`: topics, groups, a dead broker, a drain of half of the partitions.

`MetadataProjection` writes the rows from the image, so they equal those of the monitor.
"""

from __future__ import annotations

import os
import random
import uuid
from typing import Any

from brokerd.cluster.image import Image
from brokerd.cluster.model import BrokerState, PartitionState, ReplicaIncarnation, TopicState

BROKERS = 6
DEAD = 6
USER, PASSWORD = "bench", "a long password"
MOVES_OVER = 20
"""Finished moves of 5,000 partitions each, in addition to the drain of the dead broker."""
PARTS_OVER = 5_000
OPTIONS = "BENCH_CONSOLE"
"""Environment variable with the options of `bench.console_server` as JSON."""
START = "/bench/start"
"""Path that starts the live updates."""
MS_HEADER, QUERIES_HEADER = "bench-ms", "bench-queries"
"""Headers of each response: milliseconds to its start, and queries of the database."""


def topic_name(n: int) -> str:
    return f"app-{n:06d}.events"


def group_name(n: int) -> str:
    return f"reader-{n:05d}"


def cluster_image(topics: int, partitions: int) -> Image:
    """`partitions`: of each topic. Half of all partitions lack the replica of the dead broker."""
    image = Image(seq=1, cluster_id="bench", controller_epoch=1)
    for b in range(1, BROKERS + 1):
        image.brokers[b] = BrokerState(b, 100 + b, f"uuid-{b}", "127.0.0.1", 9000 + b, alive=b != DEAD)
    for n in range(topics):
        topic_id, name = uuid.UUID(int=n + 1), topic_name(n)
        state = TopicState(topic_id, name, 1, {}, partitions, ready=True)
        for i in range(partitions):
            replicas = tuple((n + i + j) % BROKERS + 1 for j in range(3))
            isr_members = tuple(ReplicaIncarnation(b, 100 + b) for b in replicas if b != DEAD)
            state.partitions[i] = PartitionState(
                replicas, isr_members, isr_members[0].broker_id, 100 + isr_members[0].broker_id
            )
        image.topics[topic_id] = state
        image.topic_ids[name] = topic_id
    return image


def seed(topics: int, partitions: int, groups: int) -> None:
    """Write the database rows of a cluster of this size. One broker is down, so half of all partitions lack a replica."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db.models import F
    from django.utils import timezone

    from controlplane.models import (
        Broker,
        Change,
        ConsumerGroup,
        GroupPartition,
        ObservedPartition,
        ObservedReplica,
        ObservedTopic,
        Topic,
    )
    from controlplane.monitoring.projection import MetadataProjection
    from controlplane.selectors.topics import drift_count

    call_command("migrate", verbosity=0)
    get_user_model().objects.create_user(USER, password=PASSWORD, is_staff=True)
    draw, now = random.Random(7), timezone.now()
    image = cluster_image(topics, partitions)
    rows = [
        Topic(id=i, name=t.name, partitions=partitions, replication_factor=3, configs={}, applied_generation=1)
        for i, t in image.topics.items()
    ]
    Topic.objects.bulk_create(rows, batch_size=2000)
    mirror = MetadataProjection()
    mirror.write(image)
    mirror.touch(image, controller_id=1, connected=True, fresh=True, sampled=True, drift=drift_count())
    ObservedPartition.objects.update(
        start_offset=0, end_offset=F("id") * 37 % 100_000, size_bytes=F("id") * 911 % 10**9, sampled_at=now
    )
    ObservedReplica.objects.update(end_offset=1000, lag_records=0, size_bytes=F("id") * 911 % 10**9, sampled_at=now)
    ObservedTopic.objects.update(size_bytes=F("partition_count") * 10**6, records=10**6, records_per_s=3.5)
    Broker.objects.update(answered=True, sampled_at=now, size_bytes=61_000_000)
    Broker.objects.filter(broker_id=DEAD).update(answered=False)
    ConsumerGroup.objects.bulk_create(
        [
            ConsumerGroup(
                group_id=group_name(g),
                state="Stable",
                protocol_type="consumer",
                assignor="range",
                coordinator=g % BROKERS + 1,
                member_count=2,
                lag_records=draw.randrange(10_000),
                lag_ms_max=draw.randrange(60_000),
                status="healthy",
                observed_at=now,
            )
            for g in range(groups)
        ],
        batch_size=2000,
    )
    GroupPartition.objects.bulk_create(
        [
            GroupPartition(
                group_id=group_name(g),
                topic=topic_name(g % topics),
                index=i,
                committed=900,
                end_offset=1000,
                lag_records=100,
                lag_ms=50,
                status="healthy",
                observed_at=now,
            )
            for g in range(groups)
            for i in range(partitions)
        ],
        batch_size=2000,
    )
    Change.objects.bulk_create(
        [
            Change(
                actor="bench",
                verb="topic.create",
                object_kind="topic",
                object_name=topic_name(n),
                outcome="confirmed",
            )
            for n in range(topics)
        ],
        batch_size=2000,
    )


def seed_moves() -> None:
    """Write the rows of moves in the form in which the worker writes them: a drain of the dead broker in progress, and finished moves."""
    from controlplane.domain.move_types import PlacementBefore
    from controlplane.domain.progress import Sample
    from controlplane.domain.scope import DrainScope
    from controlplane.models import Move, MovePartition, ObservedPartition
    from controlplane.services.move_totals import store_totals

    rows = ObservedPartition.objects.order_by("pk").values_list(
        "topic_id", "topic__name", "index", "replicas", "size_bytes"
    )

    def part(move: Move, place: int, row: tuple[Any, ...], over: bool) -> MovePartition:
        topic_id, name, index, replicas, size = row
        to = [next(b for b in range(1, BROKERS + 1) if b not in replicas) if b == DEAD else b for b in replicas]
        state = "done" if over or place % 3 == 0 else "copying" if place % 3001 == 1 else "waiting"
        return MovePartition(
            move=move,
            topic_id=topic_id,
            topic_name=name,
            partition=index,
            before=PlacementBefore(tuple(replicas), replicas[0], tuple(replicas)),
            replicas_from=replicas,
            replicas_to=to,
            desired_replicas=to,
            read_generation=1,
            state=state,
            active=state != "done",
            bytes_total=size,
            bytes_done=size if state == "done" else 0,
        )

    samples = tuple(Sample(1.0e9 + 3 * n, 10**12 - n * 10**9, n * 10**9) for n in range(240))
    for n in range(MOVES_OVER + 1):
        over = n < MOVES_OVER
        move = Move.objects.create(
            scope=DrainScope(broker=DEAD), state="done" if over else "running", actor="bench", samples=samples
        )
        taken = rows[n * PARTS_OVER : (n + 1) * PARTS_OVER] if over else [r for r in rows if DEAD in r[3]]
        MovePartition.objects.bulk_create((part(move, i, r, over) for i, r in enumerate(taken)), batch_size=2000)
        if over:
            store_totals(move.pk)
