"""Numbers of tasks and of partitions of internal topics, and topics that are missing or wrong."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from brokerd.coordinator.streams_group.configured_topology import InvalidTopology, configure
from brokerd.coordinator.streams_group.events import StatusCode
from brokerd.coordinator.streams_group.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from tests.unit.coordinator.streams_group.scene import COUNT
from tests.unit.coordinator.topics import FakeTopics


def topics(**more: int) -> FakeTopics:
    """`a` with 4 partitions, `b` with 3, and more."""
    found = FakeTopics()
    found.there |= {name.replace("_", "-"): (UUID(int=9 + i), n) for i, (name, n) in enumerate(more.items())}
    return found


def missing(found: Any) -> dict[str, int]:
    return {t.name: t.partitions for t in found.missing}


def test_a_repartition_topic_has_the_partitions_of_its_source() -> None:
    found = configure(COUNT, topics())
    assert (found.task_counts, found.stateful) == ({"0": 4, "1": 4}, {"1"})
    assert missing(found) == {"g-r": 4, "g-c": 4} and not found.ready
    assert found.status is not None and found.status.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert dict(found.missing[1].configs) == {"cleanup.policy": "delete"}
    assert configure(COUNT, topics(g_r=4, g_c=4)).ready


def test_chains_of_repartition_topics() -> None:
    chain = Topology(
        1,
        (
            Subtopology("2", repartition_source_topics=(InternalTopic("r2"),)),
            Subtopology("1", repartition_sink_topics=("r2",), repartition_source_topics=(InternalTopic("r1"),)),
            Subtopology("0", ("a", "b"), repartition_sink_topics=("r1",)),
        ),
    )
    assert missing(configure(chain, topics())) == {"r1": 4, "r2": 4}


def test_subtopologies_that_write_to_each_other() -> None:
    cycle = Topology(
        1,
        (
            Subtopology("0", ("a",), ("r1",), (InternalTopic("r2"),)),
            Subtopology("1", (), ("r2",), (InternalTopic("r1"),)),
        ),
    )
    assert missing(configure(cycle, topics())) == {"r1": 4, "r2": 4}


def test_a_repartition_topic_that_nothing_writes_is_impossible() -> None:
    with pytest.raises(InvalidTopology, match="r1"):
        configure(Topology(1, (Subtopology("0", repartition_source_topics=(InternalTopic("r1"),)),)), topics())


def test_a_fixed_number_of_partitions() -> None:
    fixed = Topology(
        1,
        (
            Subtopology("0", ("a",), ("r",)),
            Subtopology(
                "1", repartition_source_topics=(InternalTopic("r", 7),), changelog_topics=(InternalTopic("c"),)
            ),
        ),
    )
    assert missing(configure(fixed, topics())) == {"r": 7, "c": 7}


def test_copartitioned_topics() -> None:
    def join(sources: tuple[str, ...], *repartition: InternalTopic) -> Topology:
        group = CopartitionGroup(tuple(range(len(sources))), tuple(range(len(repartition))))
        written = tuple(t.name for t in repartition)
        return Topology(
            1,
            (
                Subtopology("0", ("b",), written),
                Subtopology("1", sources, (), repartition, copartition_groups=(group,)),
            ),
        )

    assert missing(configure(join(("a",), InternalTopic("r")), topics())) == {"r": 4}, "that of the source topic"
    assert missing(configure(join((), InternalTopic("r", 5), InternalTopic("q")), topics())) == {"r": 5, "q": 5}
    assert missing(configure(join((), InternalTopic("r"), InternalTopic("q")), topics())) == {"r": 3, "q": 3}
    for wrong in (join(("a", "b")), join(("a",), InternalTopic("r", 5))):
        found = configure(wrong, topics())
        assert found.status is not None and found.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_an_existing_topic_with_another_number_of_partitions_is_wrong() -> None:
    found = configure(COUNT, topics(g_r=2))
    assert found.status is not None and found.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "g-r has 2 partitions, expected are 4" in found.status.detail and found.task_counts == {}


def test_missing_source_topics_are_named() -> None:
    many = Topology(1, (Subtopology("0", ("a", *(f"x{i:02}" for i in range(12)))),))
    found = configure(many, topics())
    assert found.status is not None and found.status.code is StatusCode.MISSING_SOURCE_TOPICS
    assert "x00" in found.status.detail and "and 2 more" in found.status.detail and "x11" not in found.status.detail


def test_a_source_topic_may_be_a_changelog() -> None:
    table = Topology(1, (Subtopology("0", ("a",), changelog_topics=(InternalTopic("a"),)),))
    found = configure(table, topics())
    assert found.ready and found.stateful == {"0"}
