"""Offset commits, transactional or not: from requests, and back to responses. Pure. Does not contain: authorization."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from brokerd.coordinator.classic.events import Completed, Offset, TopicIndex
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.wire.errors import ErrorCode

Response = TypeVar("Response")


def offsets_of(
    topics: Iterable[Any], groups: GroupCoordinator, wall_ms: int
) -> tuple[dict[TopicIndex, Offset], dict[TopicIndex, int]]:
    """(offsets to commit, {partition: error}) of a request's topics. As in Kafka a partition must exist; a leader is not needed."""
    offsets: dict[TopicIndex, Offset] = {}
    rejected: dict[TopicIndex, int] = {}
    for topic in topics:
        count = groups.partition_count(topic.name)
        for p in topic.partitions:
            place, text = (topic.name, p.partition_index), p.committed_metadata or ""
            if not 0 <= p.partition_index < count:
                rejected[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(text.encode()) > groups.metadata_bytes_max:
                rejected[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets[place] = Offset(p.committed_offset, p.committed_leader_epoch, text, wall_ms)
    return offsets, rejected


def no_partition_exists(offsets: Mapping[TopicIndex, Offset], rejected: Mapping[TopicIndex, int]) -> bool:
    """True if no partition of the request exists, so that the group has nothing to decide."""
    return not offsets and bool(rejected) and set(rejected.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def build_topic_responses(
    topics: Iterable[Any],
    response: Completed,
    rejected: Mapping[TopicIndex, int],
    build_topic: Callable[[Any, list[Any]], Response],
    partition_class: type,
) -> list[Response]:
    """Build the response: `build_topic(topic of the request, partitions)` per topic, and an instance of `partition_class` with its error per partition."""
    errors = {**response.partition_errors, **rejected}
    return [
        build_topic(
            t,
            [
                partition_class(
                    partition_index=p.partition_index,
                    error_code=errors.get((t.name, p.partition_index), response.error),
                )
                for p in t.partitions
            ],
        )
        for t in topics
    ]


def all_failed(
    topics: Iterable[Any], error: ErrorCode, build_topic: Callable[[Any, list[Any]], Response], partition_class: type
) -> list[Response]:
    """The partitions of these topics, all with the same error."""
    return build_topic_responses(topics, Completed(error), {}, build_topic, partition_class)
