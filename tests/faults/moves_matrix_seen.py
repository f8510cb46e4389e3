"""What the moves' matrix sees of a house from outside: placements, moves, throttles, who is back and who died besides. Asks, judges nothing."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from controlplane.house import zookeeper
from controlplane.house.processes import read_state
from tests.cluster.house import House
from tests.cluster.local import wait_for

THROTTLES = (
    "leader.replication.throttled.rate", "follower.replication.throttled.rate", "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)  # fmt: skip

Key = tuple[str, int]


class Seen:
    """`topics`: those that take part."""

    def __init__(self, house: House, topics: Sequence[str], brokers: int) -> None:
        self.house, self.topics, self.brokers = house, topics, brokers

    def patient(self, ask: Callable[[], Any]) -> Any:
        """Of a console that may be away: None then."""
        try:
            return ask()
        except (OSError, urllib.error.URLError, AssertionError, ValueError):
            return None

    def placements(self) -> dict[Key, tuple[list[int], int]]:
        """(replicas, assignment generation) of every partition that takes part."""
        return {
            (t, p["index"]): (p["replicas"], p["assignment_generation"])
            for t in self.topics
            for p in self.house.partitions(t)
        }

    def apart(self) -> dict[Key, int]:
        """Partitions whose old records lie with others than their replicas: below which offset."""
        rows = ((t, p) for t in self.topics for p in self.house.partitions(t))
        return {(t, p["index"]): p["archive_start"] for t, p in rows if p["archive_start"] is not None}

    def ways(self, topic: str, source: int, target: int) -> int:
        """Partitions of this topic that may go this way."""
        return sum(t == topic and source in r and target not in r for (t, _), (r, _) in self.placements().items())

    def move(self, move_id: int) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.patient(lambda: self.house.get(f"moves/{move_id}"))
        return found

    def parts(self, move_id: int) -> list[dict[str, Any]]:
        """None of them where the console is away."""
        return list(self.patient(lambda: self.house.get(f"moves/{move_id}/parts?per_page=100")["rows"]) or [])

    def states(self, move_id: int) -> list[str]:
        return sorted(p["state"] for p in self.parts(move_id))

    def told(self, move_id: int) -> tuple[Any, ...]:
        """All of a move that goes on while it goes on."""
        m = wait_for(lambda: self.move(move_id), "the console", 60)
        return m["state"], m["parts_ended"], m["bytes_done"], m["finished_at"], self.states(move_id)

    def settled(self) -> bool:
        """Everybody is back and in sync, and the console says so from figures of now."""
        o = self.patient(lambda: self.house.get("overview"))
        return bool(
            o and o["health"]["word"] == "healthy" and (o["age_s"] or 99) < 5 and o["brokers_alive"] == self.brokers
        )

    def throttles(self) -> list[str]:
        """Those that a Kafka client could see."""
        asked = [ConfigResource(ConfigResource.Type.TOPIC, t) for t in self.topics]
        asked += [ConfigResource(ConfigResource.Type.BROKER, str(b)) for b in range(1, self.brokers + 1)]
        left = []
        for resource in asked:
            configs = wait_for(lambda r=resource: self._described(r), f"the configs of {resource.name}", 90)  # type: ignore[misc]
            left += [f"{resource.name} {n}" for n in THROTTLES if n in configs and not configs[n].is_default]
        return left

    def _described(self, resource: ConfigResource) -> Any:
        """None where nobody answers yet: a broker that was killed is connected to again after some seconds."""
        try:
            # librdkafka forgets a broker that metadata did not name while it was away (docs/clients.md).
            self.house.admin.list_topics(timeout=10)
            return self.house.admin.describe_configs([resource], request_timeout=10)[resource].result(15)
        except (KafkaException, TimeoutError):
            return None

    # -- processes -----------------------------------------------------------------------------------------------------------
    def name(self, victim: str, source: int, target: int) -> str:
        if victim == "controller":
            return f"controller-{wait_for(lambda: self.house.get('overview')['controller_id'], 'a controller')}"
        return {"source": f"broker-{source}", "target": f"broker-{target}"}.get(victim, victim)

    def pids(self) -> dict[str, int]:
        """Of the processes that run, from the supervisor's file: `status` starts a Python each time it is asked."""
        rows = read_state(self.house.folder)["processes"]
        return {row["name"]: row["pid"] for row in rows if row["pid"] is not None}

    def back(self, name: str, pid: int) -> bool:
        """Another process does its work: alone to run is not enough for a broker (registered), the web (answers) and ZooKeeper (serves)."""
        if self.pids().get(name) in (None, pid):
            return False
        if name.startswith("broker-"):
            rows = self.patient(lambda: self.house.get("brokers")) or []
            return any(b["broker_id"] == int(name[7:]) and b["alive"] for b in rows)
        if name == "zookeeper":
            return zookeeper.ready(self.house.base + 1)
        return self.patient(lambda: self.house.get("overview")) is not None

    def last_words(self, name: str, lines: int = 4) -> str:
        """The end of a process's log."""
        text = (self.house.folder / "logs" / f"{name}.log").read_text(errors="replace")
        return " | ".join(line.strip() for line in text.splitlines()[-lines:])
