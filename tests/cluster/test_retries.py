"""The example consumer on real processes: failed records come again after their delays, and are dead letters after the last attempt."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_half_messages import consumer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("retries"), 1) as running:
        yield running


def test_failed_records_come_again_and_are_dead_letters_after_the_last_attempt(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    name = f"t{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    delayed = {"weir.delay.topic": f"{name}.retry"}
    topics = [NewTopic(n, 2, 1) for n in (name, f"{name}.retry", f"{name}.dead")]
    for future in admin.create_topics([*topics, NewTopic(f"{name}.retry.delay", 2, 1, config=delayed)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for i in range(6):
        producer.produce(
            name, f"bad {i}" if i % 3 == 0 else f"good {i}", key=str(i), partition=i % 2, headers={"h": "1"}
        )
    assert producer.flush(60) == 0
    arguments = [cluster.bootstrap, name, "g", "--steps-ms", "300,600", "--fail", "bad", "--seconds", "120"]
    output = tmp_path / "output"
    with (
        output.open("w") as written,
        subprocess.Popen([sys.executable, "-m", "examples.retrying_consumer", *arguments], stdout=written) as program,
    ):
        dead = consumer(cluster, f"{name}.dead")
        found: dict[str, dict[str, bytes]] = {}

        def both() -> bool:
            message = dead.poll(0.2)
            if message is not None and not message.error():
                found[(message.value() or b"").decode()] = {n: v or b"" for n, v in message.headers() or []}
            return len(found) == 2

        wait_for(both, "two dead letters", 100)
        dead.close()
        program.terminate()
    processed = Counter(output.read_text().splitlines())
    assert processed == {"bad 0": 3, "bad 3": 3, "good 1": 1, "good 2": 1, "good 4": 1, "good 5": 1}
    assert found["bad 0"] == {
        "h": b"1",
        "x-retry-count": b"3",
        "x-retry-group": b"g",
        "x-retry-source": f"{name}-0@0".encode(),
        "x-retry-error": b"cannot process 'bad 0'",
    }
