"""Bytes that a roll-back of a move copies. Invariant: only the finished partitions count. The old replicas of an active one still have their data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from controlplane.models import MovePartition, ObservedPartition
from controlplane.models.move import PartState


@dataclass(frozen=True, slots=True)
class CopiesBack:
    """`bytes_total`: for all brokers. `bytes_busiest`: for the broker that receives the most. `unknown`: partitions whose size is unknown."""

    bytes_total: int
    bytes_busiest: int
    unknown: int


def copies_back(move_id: int) -> CopiesBack:
    """The bytes that the finished partitions of a move copy to their previous brokers, by the present sizes on the leaders."""
    done = list(
        MovePartition.objects.filter(move_id=move_id, state=PartState.DONE).values_list(
            "topic_id", "partition", "replicas_from", "replicas_to"
        )
    )
    observed = ObservedPartition.objects.filter(topic_id__in={topic_id for topic_id, *_ in done})
    sizes = {
        (topic_id, index): size for topic_id, index, size in observed.values_list("topic_id", "index", "size_bytes")
    }
    received: Counter[int] = Counter()
    unknown = 0
    for topic_id, index, old, new in done:
        lacking = set(old) - set(new)
        size = sizes.get((topic_id, index))
        if size is None:
            unknown += bool(lacking)
        else:
            received.update(dict.fromkeys(lacking, size))
    return CopiesBack(received.total(), max(received.values(), default=0), unknown)
