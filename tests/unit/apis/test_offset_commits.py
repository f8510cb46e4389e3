"""Offset commits of a request: which are committed, which are rejected, and the response with each partition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis.offset_commits import all_failed, build_topic_responses, no_partition_exists, offsets_of
from brokerd.coordinator.classic.events import Completed, Offset
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import OffsetCommitRequest as Wanted
from brokerd.wire.messages import OffsetCommitResponse as Response

GROUPS: Any = SimpleNamespace(partition_count={"t": 2}.__getitem__, metadata_bytes_max=4)
UNKNOWN, LARGE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_METADATA_TOO_LARGE


def build_topic(requested: Any, partitions: list[Any]) -> Response.OffsetCommitResponseTopic:
    return Response.OffsetCommitResponseTopic(name=requested.name, partitions=partitions)


SHAPES = build_topic, Response.OffsetCommitResponsePartition


def topic(**parts: str | None) -> list[Any]:
    """`p1="text"`: partition 1 with this metadata."""
    r = Wanted.OffsetCommitRequestPartition
    found = [
        r(partition_index=int(p[1:]), committed_offset=7, committed_leader_epoch=3, committed_metadata=text)
        for p, text in parts.items()
    ]
    return [Wanted.OffsetCommitRequestTopic(name="t", partitions=found)]


def test_existing_partitions_with_short_metadata_are_committed() -> None:
    offsets, rejected = offsets_of(topic(p0="four", p1=None, p2="", p9=""), GROUPS, 17)
    assert offsets == {("t", 0): Offset(7, 3, "four", 17), ("t", 1): Offset(7, 3, "", 17)}
    assert rejected == {("t", 2): UNKNOWN, ("t", 9): UNKNOWN}


def test_the_limit_of_metadata_is_in_bytes() -> None:
    offsets, rejected = offsets_of(topic(p0="äöü"), GROUPS, 17)
    assert (offsets, rejected) == ({}, {("t", 0): LARGE})


def test_a_request_without_existing_partitions_has_nothing_to_decide() -> None:
    assert no_partition_exists({}, {("t", 2): UNKNOWN})
    assert not no_partition_exists({}, {("t", 2): UNKNOWN, ("t", 0): LARGE})
    assert not no_partition_exists({}, {})
    assert not no_partition_exists({("t", 0): Offset(1, 1, "", 1)}, {("t", 2): UNKNOWN})


def test_each_partition_has_its_own_error_or_that_of_the_group() -> None:
    requested = topic(p0="", p1="", p2="")
    (found,) = build_topic_responses(requested, Completed(0, {("t", 1): 3}), {("t", 2): UNKNOWN}, *SHAPES)
    assert [(p.partition_index, p.error_code) for p in found.partitions] == [(0, 0), (1, 3), (2, UNKNOWN)]
    (failed,) = all_failed(requested, ErrorCode.NOT_COORDINATOR, *SHAPES)
    assert {p.error_code for p in failed.partitions} == {ErrorCode.NOT_COORDINATOR}
