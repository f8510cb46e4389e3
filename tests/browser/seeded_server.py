"""The web application on seeded rows, without a cluster: `python -m tests.browser.seeded_server PORT [--night]`.

With --night the rows are those of a cluster with every kind of problem (`sample_alerts.every_kind`). It seeds the database of $WEIR_DATA_DIR, serves, and publishes each line of its standard input ({"kind", "data"}) on the live feed. Kind "age": the
data is that many seconds old from then on. Kind "zookeeper_away": the cluster monitor runs without ZooKeeper. Kind "ask_other_clusters": one round of requests to the other consoles."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TextIO

from tests.browser import responses, sample_alerts
from tests.browser.responses import ADMINISTRATOR, TEAM

if TYPE_CHECKING:
    from tests.unit.controlplane.world import World

USER, PASSWORD = "operator", "a long password"
PUBLISHED = "published"
"""The line on standard output after each line of standard input that was published."""


def prepare(*, night: bool = False) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    users = get_user_model().objects
    if not users.filter(username=USER).exists():
        users.create_user(USER, password=PASSWORD, is_staff=True)
        users.create_user(ADMINISTRATOR, password=PASSWORD, is_staff=True, is_superuser=True)
        for name in ("viewer", TEAM):
            users.create_user(name, password=PASSWORD)
        from tests.unit.console.seed import seed

        made = seed(extra_topics=60)
        delayed_messages(made["world"])
        dead_letters(made["world"])
        moves_in_every_state()
        tiered_topic(made["world"])
        truncations(made["world"])
        sample_alerts.create_resolved_alerts(made["world"])
        sample_alerts.ended_by_a_threshold()
        long_names()
        responses.install(made["world"])
        lake()
        health_and_past()
        if night:
            sample_alerts.every_kind(made["world"])
            sample_alerts.kept_stopped()


def delayed_messages(world: World) -> None:
    """Leaders of the topic payments.delay that describe waiting records, without brokers."""
    import pytest

    from tests.unit.controlplane.delayed_responses import HOUR_MS, NOW_MS, PendingRecord, patch_responses

    found = patch_responses(pytest.MonkeyPatch(), world, "payments")
    for n in range(400):
        at = NOW_MS + (n % 7 + 1) * (n * n * 977 + 40_000)
        found.waiting[n % 2].append(PendingRecord(100 + n, at, f"payment-{n % 50}".encode(), cancelled=n % 23 == 5))
    found.waiting[1].append(PendingRecord(600, NOW_MS + 24 * 90 * HOUR_MS, b"far"))


def dead_letters(world: World) -> None:
    """Dead letters of the topic invoices, some sent again. The user may read and produce records."""
    import pytest

    from controlplane.clients import record_range
    from controlplane.domain.dead_letters import ResendTarget
    from controlplane.models import TopicMessages
    from controlplane.services import dead_letters as services
    from tests.unit.controlplane.dead_letter_responses import letter, patch_responses, user_with_permissions

    patch, read_delayed = pytest.MonkeyPatch(), record_range.read_range
    found = patch_responses(patch, world, "invoices")

    def read_range(topic: str, *rest: Any) -> record_range.RecordRange:
        return (found.read_range if topic.endswith(".dead") else read_delayed)(topic, *rest)

    patch.setattr(record_range, "read_range", read_range)
    found.letters[1] += [letter(n, "mail", f"address of customer {n} bounced") for n in range(1, 9)]
    number = sum(map(len, found.letters.values()))
    TopicMessages.objects.create(
        topic="invoices", dead_letters=number, dead_letters_grown=2, sampled_at=datetime.now(UTC)
    )
    services.send(
        user_with_permissions(USER),
        "invoices",
        [(0, 1), (1, 3)],
        target=ResendTarget.RETRY,
        comment="mail server is back",
    )


def truncations(world: World) -> None:
    """A loss of acknowledged records after an approved unclean leader election of orders-1, and an ordinary truncation before it."""
    from django.utils import timezone

    from controlplane.models import Proposal, ReplicaTruncation
    from controlplane.services.proposal_kinds import ProposalText, StoredView
    from weir_common.phrases import sentence

    now = timezone.now()
    at = now - timedelta(hours=3)
    shown = ProposalText(
        sentence("Unclean leader election of {partition}", partition="orders-1"),
        (sentence("No broker of the last in-sync replicas {brokers} is alive.", brokers=[2]),),
        {"alive": [3]},
    )
    view = StoredView(title=shown.title, lines=list(shown.lines), facts=dict(shown.facts), phrases=shown.phrases())
    Proposal.objects.create(
        kind="election.unclean",
        target="orders-1",
        shown=view,
        shown_hash="0" * 64,
        state="done",
        proposed_by=USER,
        comment="the disk of broker 2 is lost",
        decided_by=ADMINISTRATOR,
        decided_at=at,
        expires_at=at + timedelta(days=1),
    )
    for first, end, high_watermark, broker_id, hours_ago in ((538, 1_038, 1_000, 2, 2), (480, 492, 480, 3, 30)):
        ReplicaTruncation.objects.create(
            topic_id=world.image.topic_ids["orders"],
            topic_name="orders",
            partition=1,
            broker_id=broker_id,
            first_offset=first,
            end_offset=end,
            high_watermark=high_watermark,
            leader_epoch=4,
            truncated_at=now - timedelta(hours=hours_ago),
        )


def lake() -> None:
    """Two tables in $WEIR_DATA_DIR/lake: records of the topic orders, and one that could not be read."""
    from pathlib import Path

    from django.conf import settings

    from tests.unit.pipeline.lake.records import archive_of, record, write_and_commit
    from weir_common.lake import ValueFormat

    folder = Path(settings.WEIR.lake_dir)
    folder.mkdir(parents=True, exist_ok=True)
    orders = [record(n, b'{"id": %d, "amount": %d}' % (n, 100 * n), topic="orders", day=n % 2) for n in range(40)]
    write_and_commit(
        archive_of(folder, ValueFormat.JSON, topics=["orders"]), [*orders, record(40, b"{", topic="orders")]
    )


def health_and_past() -> None:
    """Results of the health checks, an anomaly, and a kept metadata log whose last half hour has the failure of a broker."""
    from django.utils import timezone

    from controlplane.models import Anomaly, Broker
    from controlplane.services import health
    from tests.unit.controlplane import metadata_log

    health.evaluate()
    now = timezone.now()
    Anomaly.objects.create(
        subject="topic:flights",
        metric="records_per_s",
        state="low",
        value=20,
        usual=1000,
        distance=-9.8,
        baseline="days",
        values=7,
        since=now - timedelta(hours=1),
        checked_at=now,
    )
    refusals = [
        {"reason": "unauthorized", "total": 1_930, "per_s": 0.7},
        {"reason": "authentication_failed", "total": 12, "per_s": 0.0},
    ]
    Broker.objects.filter(broker_id=1).update(refusals=refusals)
    metadata_log.START_MS = int((now.timestamp() - 1800) * 1000)
    metadata_log.flights(metadata_log.KeptLog())


def moves_in_every_state() -> None:
    """Moves 3 to 9, one partition each, with the rows that the worker would write. For screenshots."""
    from controlplane.domain import move_phrases
    from controlplane.domain.progress import Sample
    from controlplane.domain.throttle import ProducerLatency
    from controlplane.domain.wait_reason import Wait, WaitReason
    from controlplane.models import Broker, Move, MovePartition, ObservedPartition
    from controlplane.services import move_planning
    from weir_common.phrases import counted, phrase_to_json, sentence

    Broker.objects.update(total_bytes=500 * 10**9, free_bytes=180 * 10**9)
    parts = ObservedPartition.objects.filter(topic__name__startswith="app-", size_bytes__gt=10**8).order_by(
        "topic__name"
    )[:7]
    states = (
        ("paused", "copying", "", "", "copy"),
        (
            "running",
            "copying",
            "target_down",
            sentence(move_phrases.TARGET_DOWN, broker=2),
            "copy",
        ),
        (
            "running",
            "copying",
            "will_not_finish",
            sentence(move_phrases.WILL_NOT_FINISH_THROTTLE, arrive="9.1 MB/s", needs="11.4 MB/s"),
            "copy",
        ),
        ("cancelled", "reverted", "", "", "copy"),
        ("rolled_back", "reverted", "", "", "copy"),
        (
            "failed",
            "rejected",
            "",
            sentence(move_phrases.DIFFERENCE, read=4, now=6, replicas="2, 3, 1", adding="none", removing="none"),
            "copy",
        ),
        ("running", "ready", "", "", "tail"),
    )
    for row, (state, part_state, cause, note, mode) in zip(parts, states, strict=True):
        new = next(b for b in (1, 2, 3, 4) if b not in row.replicas)
        to = [{"topic": row.topic.name, "partition": row.index, "replicas": [*row.replicas[:-1], new]}]
        move = move_planning.plan_move(
            move_planning.parse_scope({"kind": "partitions", "partitions": to}),
            actor="alice",
            comment="rack 7 is rewired",
        )
        over = state in ("cancelled", "rolled_back", "failed")
        reasons = {"target_down": ["target_down"]}.get(cause, ["retention"] if mode == "tail" else [])
        now = time.time() - (3600 if over else 0)
        size = row.size_bytes or 0
        samples = tuple(Sample(now - 90 + 3 * n, size - n * 4_000_000, n * 4_000_000) for n in range(30))
        result = counted(1, *move_phrases.REJECTED_PARTS, all="1") if state == "failed" else ""
        latency = tuple((now - 90 + 3 * n, 4 + 3 * (n % 4) if n < 20 else 40 + n % 5) for n in range(30))
        Move.objects.filter(pk=move.pk).update(
            state=state,
            mode=mode,
            samples=() if mode == "tail" else samples,
            producer_latency=ProducerLatency(rows=latency),
            throttle_bytes_per_s=2_000_000,
            bytes_per_s=None if over else 1_330_000.0,
            needs_bytes_per_s=11_400_000 if cause == "will_not_finish" else None,
            waits_for=tuple(Wait(WaitReason(reason), 1) for reason in reasons),
            started_at=datetime.fromtimestamp(now - 90, UTC),
            finished_at=datetime.fromtimestamp(now, UTC) if over else None,
            note=result,
            note_phrase=phrase_to_json(result),
        )
        MovePartition.objects.filter(move=move).update(
            state=part_state,
            cause=cause,
            note=note,
            note_phrase=phrase_to_json(note),
            bytes_done=0 if over else 116_000_000,
            active=not over,
        )


def tiered_topic(world: World) -> None:
    """A topic with tiered storage whose leaders have reported their remote sizes two times: one copies a segment, one reads for a consumer."""
    from django.utils import timezone

    from controlplane.clients.broker_samples import BrokerSample, RemoteSample
    from controlplane.models import ObservedPartition, ObservedReplica, ObservedTopic
    from controlplane.monitoring.history import HistoryRecorder
    from controlplane.monitoring.remote_sizes import RemoteSizeCache
    from tests.unit.controlplane.history_rows import record

    configs = {"remote.storage.enable": "true", "local.retention.ms": "3600000", "retention.ms": "2592000000"}
    world.topic("clicks", (1, 2, 3), (2, 3, 4), (3, 4, 1), configs=configs, size=1_900_000_000)
    ObservedPartition.objects.filter(topic__name="clicks").update(
        start_offset=0, end_offset=48_200_000, sampled_at=timezone.now()
    )
    ObservedReplica.objects.filter(topic_name="clicks").update(end_offset=48_200_000, lag_records=0)
    leaders = {("clicks", p): p + 1 for p in range(3)}
    sizes = RemoteSizeCache()
    for at_ms, read in ((1_000, 0), (11_000, 84_000_000)):
        for (topic, p), broker in leaders.items():
            copying, rate = (0, 0, 1_073_741_824)[p], (read, 0, 0)[p]
            sample = RemoteSample(412_000_000_000 + p * 10**9, 700_000_000, copying, rate, 46_000_000)
            sizes.apply(BrokerSample(broker, at_ms, remote={(topic, p): sample}), leaders)
    pks = dict(ObservedPartition.objects.filter(topic__name="clicks").values_list("index", "pk"))
    sizes.write(lambda key: pks[key[1]], timezone.now())
    ObservedTopic.objects.filter(name="clicks").update(
        size_bytes=5_700_000_000, records=144_600_000, records_per_s=2_140.5, bytes_in_per_s=900_000.0
    )
    now = int(time.time()) // 10 * 10
    recorder = HistoryRecorder()
    for n in range(60):
        values = {"records_per_s": 2_100.0 + n % 9, "size_bytes": 5_690_000_000.0 + 200_000 * n}
        record(recorder, {now - 10 * (60 - n): {("topic:clicks", name): value for name, value in values.items()}})


def long_names() -> None:
    """Names at their longest, as a client certificate and a naming scheme make them: pages must not cut the columns beside them."""
    from controlplane.services import Rejected, topics

    principal = "User:CN=deployment-pipeline.production.example.com,OU=Data Platform,O=Example,C=DE"
    for end in ("dlq", "retry"):
        try:
            topics.create_topic(
                f"warehouse.fulfilment.shipment-tracking.events.v2.{end}", partitions=-1, actor=principal
            )
        except Rejected:
            pass


def publish_stdin(published: TextIO) -> None:
    """Publish the lines of standard input, and keep the data at its age. Each line is acknowledged on `published`."""
    from datetime import timedelta

    from controlplane.monitoring.hub import hub
    from controlplane.monitoring.other_clusters import OtherClusterReader

    age_s, away = 0.0, False

    def keep_age() -> None:
        from django.utils import timezone

        from controlplane.models import Cluster

        while True:
            then = timezone.now() - timedelta(seconds=age_s)
            runs = (
                {"sampled_at": timezone.now(), "heartbeat_at": timezone.now(), "zookeeper_connected": False}
                if away
                else {}
            )
            Cluster.objects.update(**{"observed_at": then, "sampled_at": then, "zookeeper_connected": True, **runs})
            time.sleep(0.5)

    threading.Thread(target=keep_age, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if message["kind"] == "age":
            age_s = float(message["data"])
        elif message["kind"] == "zookeeper_away":
            away = bool(message["data"])
        elif message["kind"] == "ask_other_clusters":
            OtherClusterReader(hub).read_all()
        else:
            hub.publish(message["kind"], message["data"])
        print(PUBLISHED, file=published, flush=True)


async def main(port: int, published: TextIO) -> None:
    import uvicorn

    from console.live_fanout import deliver_locally
    from controlplane.monitoring.hub import hub, through_loop

    hub.deliver_through(through_loop(asyncio.get_running_loop(), deliver_locally))
    threading.Thread(target=publish_stdin, args=(published,), daemon=True).start()
    config = uvicorn.Config("weir.asgi:application", host="127.0.0.1", port=port, log_level="warning")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    published = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the console prints is part of its log
    prepare(night="--night" in sys.argv[2:])
    asyncio.run(main(int(sys.argv[1]), published))
