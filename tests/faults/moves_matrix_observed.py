"""The state of the cluster as the moves' matrix observes it from outside: placements, moves, throttles, live and dead processes. Contains no
checks."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable, Collection, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from controlplane.devcluster import zookeeper
from controlplane.devcluster.processes import read_state
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)

Key = tuple[str, int]


class ObservedStates:
    """`topics`: the topics that the matrix moves."""

    def __init__(self, devcluster: DevCluster, topics: Sequence[str], brokers: int) -> None:
        self.devcluster, self.topics, self.brokers = devcluster, topics, brokers

    def unless_down(self, send_request: Callable[[], Any]) -> Any:
        """The result of `send_request`; None if the console does not respond."""
        try:
            return send_request()
        except (OSError, urllib.error.URLError, AssertionError, ValueError):
            return None

    def placements(self) -> dict[Key, tuple[list[int], int]]:
        """(replicas, assignment generation) of every partition of the topics."""
        return {
            (t, p["index"]): (p["replicas"], p["assignment_generation"])
            for t in self.topics
            for p in self.devcluster.partitions(t)
        }

    def size_bytes(self, keys: Collection[Key]) -> int:
        """Size of these partitions, one replica each."""
        rows = ((t, p) for t in self.topics for p in self.devcluster.partitions(t))
        return sum(p["size_bytes"] or 0 for t, p in rows if (t, p["index"]) in keys)

    def history_end_offsets(self) -> dict[Key, int]:
        """{partition: end offset of the history} of partitions whose old records are on history replicas."""
        rows = ((t, p) for t in self.topics for p in self.devcluster.partitions(t))
        return {(t, p["index"]): p["archive_start"] for t, p in rows if p["archive_start"] is not None}

    def movable_partition_count(self, topic: str, source: int, target: int) -> int:
        """Number of partitions of this topic that can move from source to target."""
        return sum(t == topic and source in r and target not in r for (t, _), (r, _) in self.placements().items())

    def move(self, move_id: int) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.unless_down(lambda: self.devcluster.get(f"moves/{move_id}"))
        return found

    def parts(self, move_id: int) -> list[dict[str, Any]]:
        """Empty if the console does not respond."""
        return list(self.unless_down(lambda: self.devcluster.get(f"moves/{move_id}/parts?limit=100")["rows"]) or [])

    def states(self, move_id: int) -> list[str]:
        return sorted(p["state"] for p in self.parts(move_id))

    def progress(self, move_id: int) -> tuple[Any, ...]:
        """The parts of a move's status that change while it makes progress."""
        m = wait_for(lambda: self.move(move_id), "the console", 60)
        return m["state"], m["parts_ended"], m["bytes_done"], m["finished_at"], self.states(move_id)

    def is_settled(self) -> bool:
        """Every process is back, every replica in sync, and the console reports so from current samples."""
        o = self.unless_down(lambda: self.devcluster.get("overview"))
        return bool(
            o and o["health"]["word"] == "healthy" and (o["age_s"] or 99) < 5 and o["brokers_alive"] == self.brokers
        )

    def throttles(self) -> list[str]:
        """Throttles that a Kafka client can see."""
        requested = [ConfigResource(ConfigResource.Type.TOPIC, t) for t in self.topics]
        requested += [ConfigResource(ConfigResource.Type.BROKER, str(b)) for b in range(1, self.brokers + 1)]
        left = []
        for resource in requested:
            configs = wait_for(lambda r=resource: self._describe_config(r), f"the configs of {resource.name}", 90)  # type: ignore[misc]
            left += [f"{resource.name} {n}" for n in THROTTLES if n in configs and not configs[n].is_default]
        return left

    def _describe_config(self, resource: ConfigResource) -> Any:
        """None without a response: a client reconnects to a killed broker only after some seconds."""
        try:
            # librdkafka drops a broker that metadata did not name while it was down (docs/clients.md).
            self.devcluster.admin.list_topics(timeout=10)
            return self.devcluster.admin.describe_configs([resource], request_timeout=10)[resource].result(15)
        except (KafkaException, TimeoutError):
            return None

    # -- processes -----------------------------------------------------------------------------------------------------------
    def name(self, victim: str, source: int, target: int) -> str:
        if victim == "controller":
            return f"controller-{wait_for(lambda: self.devcluster.get('overview')['controller_id'], 'a controller')}"
        return {"source": f"broker-{source}", "target": f"broker-{target}"}.get(victim, victim)

    def pids(self) -> dict[str, int]:
        """{name: pid} of the running processes, from the supervisor's file: `status` would start a Python process for each call."""
        rows = read_state(self.devcluster.folder)["processes"]
        return {row["name"]: row["pid"] for row in rows if row["pid"] is not None}

    def is_replaced(self, name: str, pid: int) -> bool:
        """Whether another process has replaced the killed one: a broker is registered, the web responds, ZooKeeper serves."""
        if self.pids().get(name) in (None, pid):
            return False
        if name.startswith("broker-"):
            rows = self.unless_down(lambda: self.devcluster.get("brokers")["rows"]) or []
            return any(b["broker_id"] == int(name[7:]) and b["alive"] for b in rows)
        if name == "zookeeper":
            return zookeeper.ready(self.devcluster.base + 1)
        return self.unless_down(lambda: self.devcluster.get("overview")) is not None

    def last_words(self, name: str, lines: int = 4) -> str:
        """The last lines of a process's log."""
        text = (self.devcluster.folder / "logs" / f"{name}.log").read_text(errors="replace")
        return " | ".join(line.strip() for line in text.splitlines()[-lines:])
