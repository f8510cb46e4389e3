"""The front partitions of half messages that this broker leads, for those who append to them or describe them.

Invariant: a partition is found only while this broker leads it and knows all of its records. Does not contain: the partitions' work.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import TopicPartition
from brokerd.delivery.half_front import HalfFront


class HalfFronts:
    def __init__(self) -> None:
        self._led: dict[TopicPartition, tuple[HalfFront, Callable[[], bool]]] = {}

    def add(self, tp: TopicPartition, front: HalfFront, leads: Callable[[], bool]) -> None:
        """`leads`: whether this broker still leads the partition in the epoch of `front`."""
        self._led[tp] = front, leads

    def remove(self, tp: TopicPartition) -> None:
        self._led.pop(tp, None)

    def find(self, tp: TopicPartition) -> HalfFront | None:
        front, leads = self._led.get(tp, (None, None))
        return front if front is not None and leads is not None and leads() and front.ready else None
