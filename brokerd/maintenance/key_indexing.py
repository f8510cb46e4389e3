"""Builds the key indexes of closed segments, for topics with `weir.index.keys`, and removes those of other topics.

A look-up without an index scans the segment. Does not contain: the format (`storage/key_index`), look-ups, the jobs (`segment_indexing`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar

from brokerd.cluster.model import Now, TopicPartition
from brokerd.maintenance.segment_indexing import Current, SegmentIndexing
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.jobs import Runner
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.segment import IndexFileState, Segment

log = logging.getLogger(__name__)


class KeyIndexing(SegmentIndexing[KeyIndexBuild]):
    KIND: ClassVar[str] = "key index"

    def __init__(
        self, partitions: ReplicaManager, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
    ) -> None:
        super().__init__(partitions, jobs, clock, bytes_per_s)
        self._built_with: dict[TopicPartition, str] = {}
        """The record header of the indexes that this run has built or checked. Another one makes them unchecked."""

    def _setting(self, replica: Replica) -> str | None:
        return replica.config.index_header if replica.config.index_keys else None

    def _choose_segment(self, replica: Replica, closed: Sequence[Segment]) -> Current[KeyIndexBuild] | None:
        """The newest one without a current index: look-ups read the newest records first."""
        header_name = self._setting(replica)
        if header_name is None:
            self._built_with.pop(replica.tp, None)
            self._remove(replica, closed)
            return None
        if self._built_with.setdefault(replica.tp, header_name) != header_name:
            self._built_with[replica.tp] = header_name
            for segment in closed:
                if segment.key_index is IndexFileState.CURRENT:
                    segment.key_index = IndexFileState.UNCHECKED
        for segment in reversed(closed):
            if segment.key_index is not IndexFileState.CURRENT and self._may_try(segment):
                hashed = HashedKeys(header_name)
                build = KeyIndexBuild(self._partitions.disk, segment.path, segment.base_offset, segment.size, hashed)
                return Current(replica, segment, build, header_name)
        return None

    def _remove(self, replica: Replica, closed: Sequence[Segment]) -> None:
        try:
            for segment in closed:
                segment.remove_key_index()
        except (DiskFailed, DiskFull) as e:
            log.warning("key indexes not removed partition=%s error=%s", replica.name, e)

    def _state(self, segment: Segment) -> IndexFileState:
        return segment.key_index

    def _set_current(self, c: Current[KeyIndexBuild]) -> None:
        c.segment.key_index = IndexFileState.CURRENT

    def _remove_file(self, segment: Segment) -> None:
        segment.remove_key_index()
