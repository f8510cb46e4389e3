"""The front partitions of one kind that this broker leads, for code that appends to them or describes them.

Invariant: a partition is found only while this broker leads it and knows all of its records. Does not contain: the partitions' work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from brokerd.cluster.model import TopicPartition
from brokerd.delivery.front_partition import FrontPartition

Front = TypeVar("Front", bound=FrontPartition)


class LedFronts(Generic[Front]):
    def __init__(self) -> None:
        self._led: dict[TopicPartition, tuple[Front, Callable[[], bool]]] = {}

    def add(self, tp: TopicPartition, front: Front, leads: Callable[[], bool]) -> None:
        """`leads`: whether this broker still leads the partition in the epoch of `front`."""
        self._led[tp] = front, leads

    def remove(self, tp: TopicPartition) -> None:
        self._led.pop(tp, None)

    def find(self, tp: TopicPartition) -> Front | None:
        front, leads = self._led.get(tp, (None, None))
        return front if front is not None and leads is not None and leads() and front.ready else None
