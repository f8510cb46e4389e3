"""`make rolling-restart`: a rolling restart job restarts all brokers of a local cluster, under a verifier that produces and consumes.

The result is measured from outside: every broker is a new process, exactly once; no produce request failed after its retries (the longest time
between acknowledgements includes the retries); no acknowledged record is lost, duplicated or out of order; according to Kafka's Metadata, polled
several times a second, no partition ever had fewer in-sync replicas than min.insync.replicas. Does not check brokers that die meanwhile (`make
moves-matrix`, `make faults`) or manual restarts (tests/unit/controlplane/services/test_rolling_restart.py).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_failover import PARTITIONS, Verifier

MIN_INSYNC = 2
TOPIC = "verified"
LOOK_SECONDS = 0.1


class IsrWatch(threading.Thread):
    """The smallest ISR of any partition, and the longest time without an acknowledgement, while the thread runs."""

    def __init__(self, devcluster: DevCluster, verifier: Verifier) -> None:
        super().__init__(daemon=True)
        self.devcluster, self.verifier = devcluster, verifier
        self.fewest, self.polls, self.silence_s = 99, 0, 0.0
        self.worst = ""
        self._over = threading.Event()

    def run(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.devcluster.bootstrap, "log_level": 0, "socket.timeout.ms": 3000})
        acked, since = len(self.verifier.acked), time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            now = time.monotonic()
            if len(self.verifier.acked) != acked:
                acked, since = len(self.verifier.acked), now
            self.silence_s = max(self.silence_s, now - since)
            try:
                topics = admin.list_topics(timeout=3).topics
            except KafkaException:
                continue  # the broker of this request is down; the next poll uses another broker
            self.polls += 1
            for name, topic in topics.items():
                for index, p in topic.partitions.items():
                    if len(p.isrs) < self.fewest:
                        self.fewest, self.worst = len(p.isrs), f"{name}-{index} {p.isrs}"

    def end(self) -> None:
        self._over.set()
        self.join(10)


def run_rolling_restart(devcluster: DevCluster, body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Starts a rolling restart over REST and waits for its end."""
    made = devcluster.post("restarts", body)

    def finished_row() -> dict[str, Any] | None:
        row: dict[str, Any] = devcluster.get(f"restarts/{made['id']}")
        return row if row["finished_at"] else None

    row: dict[str, Any] = wait_for(finished_row, f"the rolling restart's end ({made['id']})", seconds)
    return row


def is_settled(devcluster: DevCluster) -> bool:
    o = devcluster.get("overview")
    return bool(o["health"]["word"] == "healthy" and (o["age_s"] or 99) < 5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rolling_restart", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rate", type=int, default=1000, help="records per second")
    arguments = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="weir-restart-") as folder:
        devcluster = DevCluster(Path(folder))
        try:
            devcluster.topic(
                TOPIC, partitions=PARTITIONS, replication_factor=3, configs={"min.insync.replicas": str(MIN_INSYNC)}
            )
            wait_for(lambda: is_settled(devcluster), "a quiet cluster", 90)
            verifier = Verifier(devcluster, TOPIC, arguments.rate)  # type: ignore[arg-type]  # of a cluster it wants the address only
            watch = IsrWatch(devcluster, verifier)
            verifier.progress("before the restart", arguments.rate)
            watch.start()
            for n in range(arguments.rounds):
                before = devcluster.pids()
                began = time.monotonic()
                row = run_rolling_restart(devcluster, {"comment": "make rolling-restart"}, 180)
                took = time.monotonic() - began
                after = devcluster.pids()
                same = [b for b in before if b.startswith("broker-") and before[b] == after.get(b)]
                others = [p for p in before if not p.startswith("broker-") and before[p] != after.get(p)]
                bad += bool(same or others or row["state"] != "done")
                away = ", ".join(f"{t['broker_id']}: {t['away_s']:.1f}" for t in row["turns"])
                print(
                    f"round {n + 1}: {row['state']} after {took:.1f} s, seconds from the request to in sync again {away}; "
                    f"not restarted {same or 'none'}, restarted besides {others or 'none'}",
                    flush=True,
                )
            watch.end()
            count = verifier.count()
        finally:
            devcluster.down()
    print(
        f"polls {watch.polls}, fewest in sync {watch.fewest} ({watch.worst}), longest without an acknowledgement {watch.silence_s:.1f} s"
    )
    print(
        f"acked {count.acked}, lost {count.lost}, doubled {count.doubled}, out of order {count.disordered}, "
        f"given up {count.failed}, never delivered {count.undelivered}"
    )
    wrong = count.lost or count.doubled or count.disordered or count.failed or count.undelivered
    return 1 if bad or wrong or watch.fewest < MIN_INSYNC else 0


if __name__ == "__main__":
    sys.exit(main())
