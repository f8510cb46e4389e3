"""`python -m bench.console`: milliseconds per page of the console over HTTP, on a large seeded cluster with one broker down.

`MetadataProjection` writes the rows from a constructed image, so they equal those of the monitor. The load is one browser: one page at a time. Not
measured: the work of the monitor, which shares the process with the pages in a local cluster.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
BROKERS = 6
DEAD = 6
MS_MAX = 100.0
"""Budget: milliseconds of server time of any page, 95th percentile."""
GZIP_KB_MAX = 150.0
USER, PASSWORD = "bench", "a long password"
MOVES_OVER = 20
"""Finished moves of 5,000 partitions each, in addition to the drain of the dead broker."""
PARTS_OVER = 5_000

PAGES = (
    "/",
    "/brokers/",
    "/brokers/1/",
    "/brokers/1/?sort=-size_bytes",
    "/brokers/1/?q=0077",
    f"/brokers/{DEAD}/",
    "/topics/",
    "/topics/?q=00077",
    "/topics/?sort=-size_bytes",
    "/topics/?page=100",
    "/topics/?state=problems",
    "/topics/app-000777.events/",
    "/topics/app-000777.events/?tab=groups",
    "/topics/app-000777.events/0/",
    "/topics/app-000777.events/delete/",
    "/groups/",
    "/groups/?sort=-lag_records",
    "/groups/?q=00123",
    "/groups/reader-00123/",
    "/moves/",
    "/moves/?state=unfinished",
    "/moves/?q=000777",
    "/moves/1/",
    f"/moves/{MOVES_OVER + 1}/",
    f"/moves/{MOVES_OVER + 1}/?state=waiting&sort=-bytes_total",
    "/alerts/",
    "/moves/new/?kind=partitions&topic=app-000777.events",
    "/audit/",
    "/audit/?q=create",
    "/search/?q=077",
    "/acls/",
    "/pipeline/",
    "/messages/",
)


@dataclass(frozen=True, slots=True)
class Result:
    """`cpu_ms`: mean CPU time of the web process per request. On a shared machine this is the comparable figure."""

    page: str
    ms_p50: float
    ms_p95: float
    ms_max: float
    cpu_ms: float
    kb_gzip: float
    status: int


def seed(topics: int, partitions: int, groups: int) -> None:
    """Write the database rows of a cluster of this size. One broker is down, so half of all partitions lack a replica."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db.models import F
    from django.utils import timezone

    from brokerd.cluster.image import Image
    from brokerd.cluster.model import BrokerState, PartitionState, ReplicaIncarnation, TopicState
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
    image = Image(seq=1, cluster_id="bench", controller_epoch=1)
    for b in range(1, BROKERS + 1):
        image.brokers[b] = BrokerState(b, 100 + b, f"uuid-{b}", "127.0.0.1", 9000 + b, alive=b != DEAD)
    rows = []
    for n in range(topics):
        topic_id, name = uuid.UUID(int=n + 1), f"app-{n:06d}.events"
        state = TopicState(topic_id, name, 1, {}, partitions, ready=True)
        for i in range(partitions):
            replicas = tuple((n + i + j) % BROKERS + 1 for j in range(3))
            isr_members = tuple(ReplicaIncarnation(b, 100 + b) for b in replicas if b != DEAD)
            state.partitions[i] = PartitionState(
                replicas, isr_members, isr_members[0].broker_id, 100 + isr_members[0].broker_id
            )
        image.topics[topic_id] = state
        image.topic_ids[name] = topic_id
        rows.append(
            Topic(id=topic_id, name=name, partitions=partitions, replication_factor=3, configs={}, applied_generation=1)
        )
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
                group_id=f"reader-{g:05d}",
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
                group_id=f"reader-{g:05d}",
                topic=f"app-{g % topics:06d}.events",
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
                object_name=f"app-{n:06d}.events",
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
    from controlplane.services.move_totals import keep

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
            keep(move.pk)


@contextmanager
def console(folder: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A logged-in client of a separate web process, and the pid of that process."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    environment = {
        **os.environ,
        "WEIR_DATA_DIR": str(folder),
        "WEIR_MONITOR": "off",
        "WEIR_LOG_LEVEL": "WARNING",
        "WEIR_SECRET_KEY": "of the benchmark alone",
    }
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "weir.asgi:application",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            for _ in range(300):
                try:
                    form = client.get("/login/").text
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            else:
                raise SystemExit("the console did not start")
            found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
            token = found.group(1) if found else ""
            answer = client.post("/login/", data={"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": token})
            assert answer.status_code == 302, answer.status_code
            yield client, process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_ms(pid: int) -> float:
    """CPU time of present and ended threads, in steps of 10 ms."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")


def measure(client: httpx.Client, pid: int, page: str, times: int) -> Result:
    took: list[float] = []
    answer = client.get(page)  # the first request fills the caches of the database and the templates
    before = cpu_ms(pid)
    for _ in range(times):
        began = time.perf_counter()
        answer = client.get(page)
        took.append((time.perf_counter() - began) * 1000)
    work = (cpu_ms(pid) - before) / times
    took.sort()
    weight = len(gzip.compress(answer.content, 6)) / 1000
    return Result(
        page,
        round(took[len(took) // 2], 1),
        round(took[int(len(took) * 0.95)], 1),
        round(took[-1], 1),
        round(work, 1),
        round(weight, 1),
        answer.status_code,
    )


def main() -> int:
    logging.getLogger("httpx").setLevel(logging.WARNING)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--topics", type=int, default=10_000)
    options.add_argument("--partitions", type=int, default=10, help="of each topic")
    options.add_argument("--groups", type=int, default=5_000)
    options.add_argument("--times", type=int, default=30, help="readings of each page")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        os.environ["WEIR_DATA_DIR"] = folder
        began = time.monotonic()
        seed(arguments.topics, arguments.partitions, arguments.groups)
        seed_moves()
        print(
            f"{arguments.topics:,} topics, {arguments.topics * arguments.partitions:,} partitions, {arguments.groups:,} groups, 1 of {BROKERS} brokers dead; "
            f"seeded in {time.monotonic() - began:.0f} s; each page {arguments.times} times"
        )
        results = []
        with console(Path(folder)) as (client, pid):
            print(f"{'page':58}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}{'CPU ms':>9}{'gzip kB':>9}")
            for page in PAGES:
                r = measure(client, pid, page, arguments.times)
                over = "  OVER" if r.ms_p95 > MS_MAX or r.kb_gzip > GZIP_KB_MAX or r.status != 200 else ""
                print(
                    f"{r.page:58}{r.ms_p50:9.1f}{r.ms_p95:9.1f}{r.ms_max:9.1f}{r.cpu_ms:9.1f}{r.kb_gzip:9.1f}{over}",
                    flush=True,
                )
                results.append(r)
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    conditions = {
        "topics": arguments.topics,
        "partitions": arguments.topics * arguments.partitions,
        "groups": arguments.groups,
        "times": arguments.times,
    }
    (build / "bench-console.json").write_text(
        json.dumps({**conditions, "pages": [asdict(r) for r in results]}, indent=1)
    )
    return int(any(r.ms_p95 > MS_MAX or r.kb_gzip > GZIP_KB_MAX or r.status != 200 for r in results))


if __name__ == "__main__":
    sys.exit(main())
