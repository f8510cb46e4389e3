"""A console process that sends dead letters again gets SIGKILL at each step. Another process sends the same dead letters: each is in the topic exactly once
for consumers with read_committed, and a third sending writes nothing. Real brokers, a real database, real transactions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.crashing_console import Step
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import ROOT, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
LETTERS = 5
COMMITTED = {Step.COMMITTED, Step.RESULT_ROW, Step.OUTCOME}
"""Steps after which the first process has sent the dead letters."""
STEPS = [step for step in Step if step is not Step.NONE]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    running = DevCluster(tmp_path_factory.mktemp("letters"), "--brokers", "1")
    try:
        running.topic("work", partitions=len(STEPS), replication_factor=1, configs={"weir.retry.enable": "true"})
        wait_for(lambda: running.active_topic("work.dead"), "the topic of dead letters")
        yield running
    finally:
        running.end()


def letters_written(cluster: DevCluster, partition: int) -> list[str]:
    """The values of new dead letters in one partition."""
    producer, failed = Producer({**cluster.client, "acks": "all", "log_level": 0}), list[object]()
    values = [f"{uuid4().hex}" for _ in range(LETTERS)]
    for value in values:
        producer.produce(
            "work.dead",
            value,
            partition=partition,
            headers={"x-retry-topic": "work"},
            on_delivery=lambda error, message: failed.append(error) if error is not None else None,
        )
    assert producer.flush(60) == 0 and not failed, failed
    return values


def console(cluster: DevCluster, step: Step, partition: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tests.cluster.crashing_console", step.value, cluster.token, "work", str(partition)]
    return subprocess.run(
        [*words, *map(str, range(LETTERS))],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("WEIR_")} | {"WEIR_DATA_DIR": str(cluster.folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def send_without_kill(cluster: DevCluster, partition: int) -> dict[str, Any]:
    """The response of a process that is not killed."""

    def finished_sending() -> dict[str, Any] | None:
        done = console(cluster, Step.NONE, partition)
        assert done.returncode == 0, done.stdout + done.stderr
        response: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert response["status"] == 200, response
        body: dict[str, Any] = response["body"]
        # "Unknown" and "rejected" say that the dead letters are to be sent again, for example while the killed process still has the transaction.
        return body if not body["refused"] and not body["unknown"] else None

    return dict(wait_for(finished_sending, "a sending with a known result", 240))


def in_topic(cluster: DevCluster, partition: int) -> Counter[str]:
    """The committed values of one partition of the topic."""
    reader = Consumer(
        {**cluster.client, "group.id": uuid4().hex, "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    reader.assign([TopicPartition("work", partition, 0)])
    found: Counter[str] = Counter()

    def at_end() -> bool:
        message = reader.poll(1)
        if message is not None and not message.error():
            found[(message.value() or b"").decode()] += 1
        return message is not None and message.error() is not None

    wait_for(at_end, "the end of the partition")
    reader.close()
    return found


@pytest.mark.parametrize(("partition", "step"), list(enumerate(STEPS)), ids=[s.value for s in STEPS])
def test_dead_letters_are_sent_once_although_the_console_is_killed(
    cluster: DevCluster, partition: int, step: Step
) -> None:
    values = letters_written(cluster, partition)
    killed = console(cluster, step, partition)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    again = send_without_kill(cluster, partition)
    assert (again["sent"], again["already"]) == ((0, LETTERS) if step in COMMITTED else (LETTERS, 0)), again
    assert in_topic(cluster, partition) == Counter(values)
    assert send_without_kill(cluster, partition)["already"] == LETTERS
    assert in_topic(cluster, partition) == Counter(values)
