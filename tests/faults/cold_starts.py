"""`make cold-starts`: first use, on processes. A broker and a controller start with an empty ZooKeeper, and a client creates a topic with the first
connection that the broker accepts. In every second start the controller starts only after this request was sent. Each start has its own path of one
ZooKeeper, its own data directory and its own broker process.

Does not check: cold starts under other load, several brokers (tests/simulation/test_cold_starts.py has random orders and delays).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.raw import RawConnection

STARTS = 200
CREATE_VERSION, TIMEOUT_MS = 7, 30_000


@dataclass(frozen=True)
class FirstResponse:
    """The response to the first CreateTopics. `waited_s`: seconds since the broker accepted the connection."""

    error: int
    message: str
    waited_s: float


class ColdCluster(LocalCluster):
    """One broker on a path of a ZooKeeper that runs already. Nothing waits for anything else. `late_controller`: it starts after the first request."""

    def __init__(self, folder: Path, zookeeper: LocalCluster, path: str, *, late_controller: bool) -> None:
        super().__init__(folder, brokers=1)
        self.zookeeper_port, self.path, self.late_controller = zookeeper.zookeeper_port, path, late_controller

    @property
    def zookeeper_connect(self) -> str:
        return f"{super().zookeeper_connect}/{self.path}"

    def _start(self) -> None:
        self.start_broker(1)
        if not self.late_controller:
            self.start_controller()


def first_response(cluster: ColdCluster) -> FirstResponse:
    """Creates a topic with the first connection that the broker accepts."""
    wait_for(lambda: cluster.listening(1), "the broker to listen")
    began = time.monotonic()
    raw = RawConnection(cluster, 1)
    topic = m.CreateTopicsRequest.CreatableTopic(name="first", num_partitions=1, replication_factor=1)
    raw.send(ApiKey.CREATE_TOPICS, CREATE_VERSION, m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))
    if cluster.late_controller:
        cluster.start_controller()
    response = raw.receive(ApiKey.CREATE_TOPICS, CREATE_VERSION).topics[0]
    waited_s = time.monotonic() - began
    raw.close()
    if response.error_code == ErrorCode.NONE:
        wait_for(lambda: cluster.image.topic_named("first"), "the created topic")
    return FirstResponse(response.error_code, response.error_message or "", waited_s)


def cold_starts(folder: Path, starts: int) -> Iterator[FirstResponse]:
    zookeeper = LocalCluster(folder, brokers=0)
    try:
        zookeeper.start_zookeeper()
        for i in range(starts):
            home = folder / f"start-{i}"
            home.mkdir()
            cluster = ColdCluster(home, zookeeper, home.name, late_controller=bool(i % 2))
            with cluster:
                yield first_response(cluster)
    finally:
        zookeeper.__exit__()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cold_starts", description=__doc__)
    parser.add_argument("--starts", type=int, default=STARTS)
    starts = parser.parse_args().starts
    responses: list[FirstResponse] = []
    with tempfile.TemporaryDirectory(prefix="weir-cold-") as folder:
        for response in cold_starts(Path(folder), starts):
            responses.append(response)
            if response.error or len(responses) % 20 == 0:
                print(
                    f"start {len(responses)}: error {response.error} {response.message}, {response.waited_s:.2f} s",
                    flush=True,
                )
    waits = sorted(a.waited_s for a in responses)
    rejected = Counter(f"{a.error} {a.message}" for a in responses if a.error)
    print(
        f"{len(responses)} cold starts, {rejected.total()} rejected; the topic was created {statistics.median(waits):.2f} s (median) and "
        f"{waits[-1]:.2f} s (longest) after the broker accepted the connection"
    )
    for text, count in rejected.items():
        print(f"  {count} times: {text}")
    return int(bool(rejected))


if __name__ == "__main__":
    sys.exit(main())
