"""The topics of a topology: numbers of tasks, numbers of partitions of internal topics, and what is missing (Kafka: InternalTopicManager). Pure.

Invariants: the result depends only on the topology and the existing topics. A topology is ready only if all its topics exist and have the right
number of partitions. Does not create topics.

The number of partitions of
- a repartition topic: as the topology sets it, else that of its copartitioned source topics, else the maximum of the subtopologies that write it;
- a changelog topic: the number of tasks of its subtopology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from brokerd.coordinator.consumer.events import Topics
from brokerd.coordinator.streams_group.events import HeartbeatStatus, StatusCode
from brokerd.coordinator.streams_group.topology import InternalTopic, Subtopology, Topology

NAMES_SHOWN_MAX = 10
"""Maximum number of topics that a status names."""


class InvalidTopology(ValueError):
    """The topology cannot be used with any topics."""


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """`task_counts`: {subtopology id: tasks}, empty unless all source topics are there and have the right number of partitions."""

    task_counts: Mapping[str, int]
    stateful: frozenset[str] = frozenset()
    missing: tuple[InternalTopic, ...] = ()
    status: HeartbeatStatus | None = None

    @property
    def ready(self) -> bool:
        return self.status is None


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Raises InvalidTopology."""

    def existing(name: str) -> int | None:
        found = topics.topic_named(name)
        return found[1] if found is not None else None

    absent = {name for s in topology for name in s.source_topics if existing(name) is None}
    if absent:
        return _unready(StatusCode.MISSING_SOURCE_TOPICS, f"source topics do not exist: {_names(absent)}")
    counts = {name: existing(name) or 0 for s in topology for name in s.source_topics}
    _add_repartition_topics(topology, counts)
    for subtopology in topology:
        problem = _copartition(subtopology, counts)
        if problem is not None:
            return _unready(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, problem)
    internal = {t.name: t for s in topology for t in s.repartition_source_topics}
    for subtopology in topology:
        for changelog in subtopology.changelog_topics:
            if changelog.name not in subtopology.source_topics:  # a source topic may be the changelog of a table
                counts[changelog.name] = _task_count(subtopology, counts)
                internal[changelog.name] = changelog
    missing = []
    for name in sorted(internal):
        there = existing(name)
        if there is None:
            missing.append(replace(internal[name], partitions=counts[name]))
        elif there != counts[name]:
            text = f"topic {name} has {there} partitions, expected are {counts[name]}"
            return _unready(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)
    text = f"internal topics do not exist yet: {_names(t.name for t in missing)}"
    return ConfiguredTopology(
        {s.subtopology_id: _task_count(s, counts) for s in topology},
        frozenset(s.subtopology_id for s in topology if s.changelog_topics),
        tuple(missing),
        HeartbeatStatus(StatusCode.MISSING_INTERNAL_TOPICS, text) if missing else None,
    )


def _unready(code: StatusCode, text: str) -> ConfiguredTopology:
    return ConfiguredTopology({}, status=HeartbeatStatus(code, text))


def _names(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = len(listed) - NAMES_SHOWN_MAX
    return ", ".join(listed[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _task_count(subtopology: Subtopology, counts: Mapping[str, int]) -> int:
    return max((counts[name] for name in subtopology.input_topics), default=0)


def _add_repartition_topics(topology: Topology, counts: dict[str, int]) -> None:
    """Add the partitions of the repartition topics to `counts`. A subtopology may read the repartition topic of another one."""
    open_topics = set()
    for subtopology in topology:
        for topic in subtopology.repartition_source_topics:
            if topic.partitions:
                counts[topic.name] = topic.partitions
            else:
                open_topics.add(topic.name)
    while open_topics:
        upstream = {
            name: {n for s in topology if name in s.repartition_sink_topics for n in s.input_topics} - {name}
            for name in open_topics
        }
        complete = {name for name, above in upstream.items() if above and above <= counts.keys()}
        # Subtopologies that write to each other: the known topics decide.
        chosen = complete or {name for name, above in upstream.items() if above & counts.keys()}
        found = {name: max(counts[n] for n in upstream[name] & counts.keys()) for name in chosen}
        if not found:
            raise InvalidTopology(
                f"the partitions of the repartition topics {_names(open_topics)} cannot be determined"
            )
        counts.update(found)
        open_topics -= found.keys()


def _copartition(subtopology: Subtopology, counts: dict[str, int]) -> str | None:
    """Give copartitioned repartition topics the same number of partitions. Returns the reason why that is not possible, or None."""
    for group in subtopology.copartition_groups:
        sources = [subtopology.source_topics[i] for i in group.source_topics]
        repartition = [subtopology.repartition_source_topics[i] for i in group.repartition_source_topics]
        fixed = sources + [t.name for t in repartition if t.partitions]
        different = {counts[name] for name in fixed}
        if len(different) > 1:
            shown = ", ".join(f"{name}: {counts[name]}" for name in sorted(fixed)[:NAMES_SHOWN_MAX])
            return f"copartitioned topics have different numbers of partitions: {shown}"
        flexible = [t.name for t in repartition if not t.partitions]
        count = different.pop() if different else max((counts[name] for name in flexible), default=0)
        counts.update(dict.fromkeys(flexible, count))
    return None
