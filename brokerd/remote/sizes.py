"""Sizes of a partition with tiered storage, as its leader knows them. Pure.

Kafka's DescribeLogDirs has local sizes only. These are reported in addition to them. Does not contain the sizes of replicas in log directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from brokerd.cluster.model import TopicPartition
from brokerd.remote.leader import LocalSegment, RemoteLeader, Stage


class RemoteSizes(NamedTuple):
    """Bytes. `remote`: segments with a finished copy (Kafka's RemoteLogSizeBytes). `local_only`: local segments without one, the active one included;
    together with `remote` the size over both tiers. `copying`: the segment that is being copied, 0 = none. `read`: records that were read from the
    store for consumers since this broker leads the partition. `local_start`: the local log start offset (KIP-405)."""

    topic: str
    tp: TopicPartition
    remote: int
    local_only: int
    copying: int
    read: int
    local_start: int


def remote_sizes(
    topic: str, leader: RemoteLeader, local_start: int, segments: Iterable[LocalSegment], read_bytes: int
) -> RemoteSizes:
    """`segments`: all local ones, the active one included. The leader's view must be loaded."""
    copied_end = leader.view.copied_end(local_start)
    attempt = leader.attempt
    copying = attempt.segment.size_bytes if attempt is not None and attempt.stage is not Stage.COPIED else 0
    return RemoteSizes(
        topic,
        leader.tp,
        remote=leader.remote_log.finished_bytes,
        local_only=sum(s.size_bytes for s in segments if s.end_offset > copied_end),
        copying=copying,
        read=read_bytes,
        local_start=local_start,
    )
