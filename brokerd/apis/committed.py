"""Offsets that clients commit, in a transaction or not: read from a request, and answered one by one. Pure.

Called by `group_offsets` and `participants`. Must not come in: who may commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokerd.coordinator.events import Answered, Offset, TopicIndex
from brokerd.coordinator.groups import OFFSET_METADATA_TOO_LARGE


def offsets_of(
    topics: Iterable[Any], metadata_bytes_max: int, wall_ms: int
) -> tuple[dict[TopicIndex, Offset], dict[TopicIndex, int]]:
    """(what is to be committed, {partition: why it is not}) of a request's topics."""
    offsets: dict[TopicIndex, Offset] = {}
    refused: dict[TopicIndex, int] = {}
    for topic in topics:
        for p in topic.partitions:
            place, text = (topic.name, p.partition_index), p.committed_metadata or ""
            if len(text.encode()) > metadata_bytes_max:
                refused[place] = OFFSET_METADATA_TOO_LARGE
            else:
                offsets[place] = Offset(p.committed_offset, p.committed_leader_epoch, text, wall_ms)
    return offsets, refused


def answered(
    topics: Iterable[Any], answer: Answered, refused: Mapping[TopicIndex, int], topic_class: type, partition_class: type
) -> list[Any]:
    """Every partition of the request with its error, as `topic_class` and `partition_class` of its response."""
    errors = {**answer.but, **refused}
    return [
        topic_class(
            name=t.name,
            partitions=[
                partition_class(
                    partition_index=p.partition_index, error_code=errors.get((t.name, p.partition_index), answer.error)
                )
                for p in t.partitions
            ],
        )
        for t in topics
    ]
