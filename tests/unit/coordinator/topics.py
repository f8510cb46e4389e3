"""Two topics for group tests, and the group configs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.config.groups import GroupConfig

GROUP_CONFIG = GroupConfig(session_ms=10_000, heartbeat_ms=1_000, size_max=6)
A, B = UUID(int=1), UUID(int=2)


@dataclass
class FakeTopics:
    there: dict[str, tuple[UUID, int]] = field(default_factory=lambda: {"a": (A, 4), "b": (B, 3)})
    version: int = 0

    def topic_named(self, name: str) -> tuple[UUID, int] | None:
        return self.there.get(name)

    def names(self) -> Iterable[str]:
        return list(self.there)


def share(topic: UUID, *partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, p) for p in partitions)
