"""The topology of a streams group, as its members send it and as its record stores it. Values without behaviour of a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic. `partitions` 0: the coordinator decides. `replication_factor` 0: the broker's default."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics with the same number of partitions, as indexes into the lists of the subtopology."""

    source_topics: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def input_topics(self) -> tuple[str, ...]:
        """The topics whose partitions are the tasks of the subtopology."""
        return (*self.source_topics, *(t.name for t in self.repartition_source_topics))


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def __iter__(self) -> Iterator[Subtopology]:
        return iter(self.subtopologies)

    def required_topics(self) -> frozenset[str]:
        """All topics that the application reads, with its internal topics."""
        names = {name for s in self for name in s.input_topics}
        return frozenset(names | {t.name for s in self for t in s.changelog_topics})

    def input_topics(self) -> frozenset[str]:
        return frozenset(name for s in self for name in s.input_topics)

    def subtopologies_of(self, topic: str) -> list[str]:
        """The ids of the subtopologies that read the topic."""
        return [s.subtopology_id for s in self if topic in s.input_topics]
