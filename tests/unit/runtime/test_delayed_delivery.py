"""Which partitions a broker delivers from: led partitions of front topics, while it leads them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.cluster.model import Now
from brokerd.runtime.delayed_delivery import DelayedDelivery


def replica(target: str) -> Any:
    log = SimpleNamespace(start_offset=0, end_offset=0)
    return SimpleNamespace(config=SimpleNamespace(delay_topic=target), log=log)


def delivery(replicas: dict[tuple[str, int], Any]) -> DelayedDelivery:
    partitions: Any = SimpleNamespace(named=lambda topic, partition: replicas.get((topic, partition)))
    unused: Any = SimpleNamespace()
    return DelayedDelivery(partitions, unused, lambda: Now(0, 0), unused, unused, lambda: 7)


def test_only_front_partitions_are_served_and_only_while_they_are_led() -> None:
    found = delivery({("t.delay", 0): replica("t"), ("t", 0): replica("")})
    for topic, partition in (("t", 0), ("t.delay", 0), ("t.delay", 1)):
        found.leads(topic, partition, 3)
    assert list(found.fronts) == [("t.delay", 0)]
    front = found.fronts["t.delay", 0][0]
    found.leads("t.delay", 0, 4)
    assert front.closed and found.fronts["t.delay", 0][0] is not front
    found.resigned("t.delay", 0)
    found.resigned("t", 0)
    assert not found.fronts
