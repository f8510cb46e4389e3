"""`python -m bench.console_updates`: the live updates of a busy cluster, from an image and values in memory, as the cluster monitor publishes them
(`LivePublisher`).

A process of its own, as the monitor is in production: it sends through Redis. Begins with the first line of its input and ends with it. Not included:
sampling the brokers and writing the rows.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from typing import TYPE_CHECKING

from bench.console_rows import BROKERS, DEAD, OPTIONS, cluster_image, group_name, topic_name

if TYPE_CHECKING:
    from controlplane.monitoring.group_metrics import GroupMetrics

ROUND_SECONDS = 2
"""Time between two rounds of samples. The monitor's rounds are one to ten seconds apart, longer in a larger cluster."""


class UpdateSource:
    """`active`: share of the topics that are produced to, and of the groups that read them."""

    def __init__(self, topics: int, partitions: int, groups: int, active: float) -> None:
        from controlplane.monitoring.hub import hub
        from controlplane.monitoring.publisher import LivePublisher
        from controlplane.monitoring.samples import MetricsCache, TopicMetrics

        self.image = cluster_image(topics, partitions)
        self.metrics = MetricsCache()
        self.metrics.answered = {b: b != DEAD for b in range(1, BROKERS + 1)}
        self.feed = LivePublisher(hub)
        self.draw = random.Random(11)
        self.partitions = partitions
        step = max(1, round(1 / active))
        self.topics = [topic_name(n) for n in range(topics) if n % step == 0 or n < 100]
        for name in self.topics:
            self.metrics.topics[name] = TopicMetrics(size_bytes=10**6, records=10**6, records_per_s=3.5)
            for i in range(partitions):
                self.metrics.offsets[name, i] = (0, 1000)
        self.groups = {group_name(g): topic_name(g % topics) for g in range(groups) if g % step == 0 or g < 50}

    def group(self, name: str, topic: str, ends: dict[int, int]) -> GroupMetrics:
        from controlplane.clients.group_samples import GroupSample
        from controlplane.monitoring.group_metrics import GroupMetrics, PartitionLag

        committed = {(topic, i): end - 100 for i, end in ends.items()}
        return GroupMetrics(
            GroupSample(name, "Stable", "consumer", "range", (), committed),
            1,
            0,
            {(topic, i): PartitionLag(end, 100) for i, end in ends.items()},
            lag_records=self.draw.randrange(10_000),
            lag_ms_max=self.draw.randrange(60_000),
        )

    def run(self) -> None:
        from controlplane.monitoring.projection import Difference

        self.feed.image(self.image, Difference(), self.metrics)
        while True:
            began = time.monotonic()
            self.round()
            self._advance_move()
            for second in range(1, ROUND_SECONDS + 1):
                self.feed.periodic()
                time.sleep(max(0.0, began + second - time.monotonic()))

    def round(self) -> None:
        """Publish one round: new records in each partition of the active topics, and a commit of each active group."""
        from controlplane.monitoring.samples import SampleChanges

        changed = SampleChanges()
        for name in self.topics:
            measurements = self.metrics.topics[name]
            measurements.records_per_s = self.draw.random() * 1000
            measurements.records = (measurements.records or 0) + 100
            for i in range(self.partitions):
                start, end = self.metrics.offsets[name, i]
                self.metrics.offsets[name, i] = (start, end + self.draw.randrange(100))
                changed.offsets.add((name, i))
        changed.topics = set(self.topics)
        for group, topic in self.groups.items():
            ends = {i: self.metrics.offsets.get((topic, i), (0, 0))[1] for i in range(self.partitions)}
            self.metrics.groups[group] = self.group(group, topic, ends)
        changed.groups = set(self.groups)
        self.feed.samples(changed, self.metrics)

    @staticmethod
    def _advance_move() -> None:
        """Write progress of the running move, as the worker does every few seconds. Its pages then reload their panels."""
        from django.db import DatabaseError
        from django.db.models import F

        from controlplane.models import Move

        try:
            Move.objects.filter(state="running").update(version=F("version") + 1)
        except DatabaseError:
            pass  # the next round tries again


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    import django

    django.setup()
    from controlplane.monitoring.hub import hub, through_loop

    source = UpdateSource(**json.loads(os.environ[OPTIONS]))
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    hub.deliver_through(through_loop(loop))
    print("ready", flush=True)
    if sys.stdin.readline():
        threading.Thread(target=source.run, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    main()
