"""The drills of the README on a cluster that `make up` starts without options: kill a broker, start it again, drain another.

The tests read Kafka's Metadata, the topic's offsets, and what the first command of the README prints. Does not check pages (tests/browser) or load.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from controlplane.devcluster.demo import PARTITIONS, TOPIC
from controlplane.devcluster.layout import planned_layout, read_facts
from controlplane.management.commands import up
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import ROOT, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), as_documented=True)
    try:
        yield devcluster
    finally:
        devcluster.down()


def flights(devcluster: DevCluster) -> dict[int, tuple[int, list[int], list[int]]]:
    """Leader, replicas and ISR of each partition of the demo's topic."""
    topics = devcluster.admin.list_topics(timeout=20).topics
    if TOPIC not in topics:
        return {}
    return {i: (p.leader, sorted(p.replicas), sorted(p.isrs)) for i, p in topics[TOPIC].partitions.items()}


def is_whole(devcluster: DevCluster) -> bool:
    found = flights(devcluster)
    return len(found) == PARTITIONS and all(leader > 0 and isr == replicas for leader, replicas, isr in found.values())


def end_offsets(devcluster: DevCluster) -> dict[int, int]:
    """The end offset of each partition. Empty while a leader was just elected: it answers OFFSET_NOT_AVAILABLE (KIP-207), and this client does not retry."""
    reader = Consumer({**devcluster.client, "group.id": "drills", "enable.auto.commit": False})
    try:
        return {p: reader.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=30)[1] for p in range(PARTITIONS)}
    except KafkaException:
        return {}
    finally:
        reader.close()


def test_the_readers_first_command_shows_records(devcluster: DevCluster) -> None:
    (command,) = [x for x in (ROOT / "README.md").read_text().splitlines() if x.startswith("kcat") and "-C" in x]
    bootstrap = devcluster.facts["bootstrap"].partition(",")[0]
    arguments = [x.replace("127.0.0.1:19092", bootstrap) for x in shlex.split(command)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    assert [json.loads(line)["year"] for line in done.stdout.splitlines()] == [2013] * 5


def test_up_sees_the_first_records(devcluster: DevCluster) -> None:
    layout = planned_layout(devcluster.folder, None, None, None)
    wait_for(lambda: up.has_records(layout, read_facts(devcluster.folder)), "`up` to see a record of the demo", 120)


def test_each_flights_partition_has_three_of_four_brokers(devcluster: DevCluster) -> None:
    wait_for(lambda: is_whole(devcluster), "flights to exist", 120)
    brokers = devcluster.admin.list_topics(timeout=20).brokers
    assert len(brokers) == 4
    placed = [replicas for _, replicas, _ in flights(devcluster).values()]
    assert all(len(set(r)) == 3 for r in placed)


def test_producers_continue_when_one_broker_is_killed(devcluster: DevCluster) -> None:
    wait_for(lambda: is_whole(devcluster), "flights to be in sync", 120)
    devcluster.manage("process", "kill", "broker-2")
    wait_for(lambda: all(leader not in (-1, 2) for leader, _, _ in flights(devcluster).values()), "other leaders", 60)
    before = wait_for(lambda: end_offsets(devcluster), "the end offsets", 60)
    wait_for(
        lambda: (now := end_offsets(devcluster)) and all(now[p] > end for p, end in before.items()),
        "records in every partition",
        120,
    )
    devcluster.manage("process", "start", "broker-2")
    wait_for(lambda: is_whole(devcluster), "broker 2 to be in sync again", 120)
    wait_for(lambda: devcluster.get("brokers/2/restart")["safe"], "broker 2 to be safe to restart", 120)


def test_broker_3_can_be_drained(devcluster: DevCluster) -> None:
    wait_for(lambda: is_whole(devcluster), "flights to be in sync", 120)
    # The monitor reads the cluster a moment after `up` is ready: a drain needs four brokers that it has seen alive.
    wait_for(
        lambda: [b["alive"] for b in devcluster.get("brokers")["rows"]] == [True] * 4,
        "the console to see four brokers",
        120,
    )
    move = devcluster.post("brokers/3/drain", {"comment": "drill"})["move_id"]
    wait_for(lambda: devcluster.get(f"moves/{move}")["state"] == "done", "the drain's end", 240)
    topics = devcluster.admin.list_topics(timeout=20).topics
    assert not [n for n, t in topics.items() for p in t.partitions.values() if 3 in p.replicas]
