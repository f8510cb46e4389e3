"""The topics of a topology."""

from __future__ import annotations

from tests.unit.coordinator.streams_group.scene import COUNT


def test_topics_of_a_topology() -> None:
    assert COUNT.input_topics() == {"a", "g-r"}
    assert COUNT.required_topics() == {"a", "g-r", "g-c"}
    assert COUNT.subtopologies_of("g-r") == ["1"] and COUNT.subtopologies_of("g-c") == []
