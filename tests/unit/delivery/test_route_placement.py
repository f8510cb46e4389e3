"""The numbers of partitions of the targets of a route, and their stored form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from brokerd.delivery import route_placement
from brokerd.delivery.route_placement import COUNTS_LENGTH_MAX, PartitionCounts


def test_a_number_applies_from_the_first_offset_that_no_leader_has_read() -> None:
    placement = PartitionCounts()
    placement.adopt("t", 2, 0)
    placement.adopt("t", 4, 10)
    placement.adopt("t", 6, 20)
    assert [placement.count("t", o) for o in (0, 9, 10, 19, 20, 99)] == [2, 2, 4, 4, 6, 6]


def test_an_unread_number_is_replaced() -> None:
    placement = PartitionCounts()
    placement.adopt("t", 2, 0)
    placement.adopt("t", 4, 30)
    placement.adopt("t", 6, 20)  # the log lost records that were not committed: no leader has read them
    assert [placement.count("t", o) for o in (19, 20, 30)] == [2, 6, 6]


def test_a_topic_that_was_created_again_with_fewer_partitions_starts_again() -> None:
    placement = PartitionCounts()
    placement.adopt("t", 4, 10)
    placement.adopt("t", 1, 20)
    assert placement.count("t", 5) == placement.count("t", 25) == 1


def test_the_version_increases_only_with_changes() -> None:
    placement = PartitionCounts()
    placement.adopt("t", 4, 0)
    version = placement.version
    placement.adopt("t", 4, 10)
    placement.retain(["t"], 5)
    assert placement.version == version
    placement.adopt("t", 5, 10)
    assert placement.version > version


def test_what_is_stored_is_restored() -> None:
    topics = ["a", "b", "c", "missing"]
    placement = PartitionCounts()
    for topic, count in (("a", 3), ("b", 3), ("c", 7)):
        placement.adopt(topic, count, 0)
    placement.adopt("b", 5, 100)
    placement.adopt("b", 6, 200)
    stored = json.loads(json.dumps(placement.to_json(topics)))
    assert stored["counts"] == "3*2,7,0" and stored["later"] == [[1, 100, 5], [1, 200, 6]]
    found = PartitionCounts.from_json(stored, topics)
    assert found is not None
    assert [found.count("b", o) for o in (99, 100, 200)] == [3, 5, 6] and found.count("c", 1) == 7
    found.adopt("missing", 2, 500)
    assert found.count("missing", 1) == 2


def test_what_applies_below_the_position_only_is_forgotten() -> None:
    placement = PartitionCounts()
    placement.adopt("t", 2, 0)
    placement.adopt("t", 4, 10)
    placement.adopt("u", 2, 0)
    placement.retain(["t"], 10)
    assert placement.to_json(["t"])["later"] == [] and placement.to_json(["t"])["counts"] == "4"
    assert placement.to_json(["u"])["counts"] == "0"


def test_a_target_keeps_its_number_when_too_many_wait() -> None:
    placement = PartitionCounts()
    placement.adopt("t", 1, 0)
    for i in range(2, 100):
        placement.adopt("t", i, 10 * i)
    assert len(placement.to_json(["t"])["later"]) == route_placement.LATER_MAX
    assert placement.count("t", 1 << 40) == route_placement.LATER_MAX + 1


def test_numbers_that_are_too_long_are_not_stored() -> None:
    topics = [f"t{i:04}" for i in range(1_000)]
    placement = PartitionCounts()
    for i, topic in enumerate(topics):
        placement.adopt(topic, 1 + i % 2, 0)
    stored = placement.to_json(topics)
    assert stored["counts"] == "" and PartitionCounts.from_json(stored, topics) is None
    assert len(PartitionCounts.to_json(placement, topics[: COUNTS_LENGTH_MAX // 2])["counts"]) == COUNTS_LENGTH_MAX - 1


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {},
        [],
        {"targets": 0, "counts": "1", "later": []},
        {"counts": "1*x", "later": []},
        {"counts": "1,1", "later": []},
        {"counts": "-1", "later": []},
        {"counts": "1*99999999999", "later": []},
        {"counts": "1", "later": [[1, 5, 2]]},
        {"counts": "1", "later": 5},
        {"counts": 1, "later": []},
    ],
)
def test_what_cannot_be_read_is_unknown(stored: Any) -> None:
    if isinstance(stored, dict) and "targets" not in stored and stored:
        stored["targets"] = PartitionCounts().to_json(["t"])["targets"]
    assert PartitionCounts.from_json(stored, ["t"]) is None
