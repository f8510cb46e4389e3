"""Worlds of delayed messages whose topics get more partitions, and whose front topic gets another retention, under the faults of `delays`.
`python -m tests.simulation --delay-changes`.

Invariants: those of `delays`, also for partitions that are added while the world runs. Retention does not apply to the front topic. Does not check retention
of the topic.
"""

from __future__ import annotations

from functools import partial

from tests.simulation import delays
from tests.simulation.checkers import History
from tests.simulation.cluster import Cluster
from tests.simulation.delays import FRONT, TOPIC, DelayProducer, Schedule
from tests.simulation.topic_changes import TopicOperator, front_configs

COUNTS = (3, 4)
SEGMENT_BYTES = "4096"
"""A new leader opens the index of each segment. With more segments on a disk that is not in memory this takes longer than a world waits at the end."""
SETTINGS = {"log.retention.check.interval.ms": "1000"}


def change(
    cluster: Cluster, history: History, schedule: Schedule, producers: list[DelayProducer], duration_s: float
) -> None:
    def on_partitions_added(name: str, count: int) -> None:
        if name == FRONT and not producers[0].stopped:
            producers.extend(DelayProducer(cluster, history, f"p{count - 1}{n}", count - 1, schedule) for n in "ab")

    TopicOperator(
        cluster, duration_s, (TOPIC, FRONT), COUNTS, on_partitions_added, {FRONT: front_configs(SEGMENT_BYTES)}
    )


live = partial(delays.live, settings=SETTINGS, change=change)
