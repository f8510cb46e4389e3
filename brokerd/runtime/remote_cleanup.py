"""Deletes objects in the remote store that no partition leader deletes: objects of deleted topics, and objects without metadata.

The leader of a metadata partition does this for the remote logs in that partition, because it also exists after the topic was deleted. Invariants: only a
tombstone of the topic in the metadata log deletes its objects (safety section 1). An object without metadata comes from a copy that ended after its leader was
deposed. It is deleted under two conditions: a read of the metadata log confirms that this broker was still the leader of the metadata partition after the
object was listed, and this broker has applied all records of the partition. A deposed leader that has not noticed its replacement lacks the records of newer
copies. Does not contain: the rules of live partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import cast

from brokerd.cluster.model import Now, TopicPartition
from brokerd.remote.frames import HelperError
from brokerd.remote.helper_requests import HelperOperation
from brokerd.remote.process import RemoteHelper
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.segments import LEADER, SEGMENT, START, Forgotten, MetadataChange, RemoteSegment, SegmentState
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.runtime.remote_metadata import RemoteMetadata

log = logging.getLogger(__name__)

CLEANUP_INTERVAL_MS = 5_000
SWEEP_INTERVAL_MS = 3_600_000
"""Interval of the search for objects without metadata, by partition."""
REQUEST_TIMEOUT_MS = 60_000
DELETIONS_MAX = 16


class RemoteCleanup:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        metadata: RemoteMetadata,
        logs: Mapping[int, dict[TopicPartition, RemoteLog]],
        helper: RemoteHelper,
        object_name: Callable[[RemoteSegment], str],
        clock: Callable[[], Now],
    ) -> None:
        self._replica_manager, self._metadata, self._logs = replica_manager, metadata, logs
        self._helper, self._object_name, self._clock = helper, object_name, clock
        self._next_ms = 0
        self._deleting: set[str] = set()
        self._deleted: set[str] = set()
        self._swept_ms: dict[TopicPartition, int] = {}

    def tick(self, now: Now) -> None:
        if now.mono_ms < self._next_ms:
            return
        self._next_ms = now.mono_ms + CLEANUP_INTERVAL_MS
        for index in self._metadata.led_partitions():
            if not self._metadata.is_current(index):
                continue
            for tp, remote_log in self._logs.get(index, {}).items():
                if tp.topic_id in self._replica_manager.image.deleted:
                    self._delete_log(remote_log)
                elif now.mono_ms - self._swept_ms.get(tp, now.mono_ms - SWEEP_INTERVAL_MS) >= SWEEP_INTERVAL_MS:
                    self._swept_ms[tp] = now.mono_ms
                    self._sweep(index, tp)

    # -- deleted topics ------------------------------------------------------------------------------------------------------
    def _delete_log(self, remote_log: RemoteLog) -> None:
        changes: list[MetadataChange] = []
        for segment in list(remote_log.segments.values()):
            own_id = segment.segment_id
            if segment.state is SegmentState.DELETE_FINISHED or own_id in self._deleted:
                changes.append(Forgotten(segment.tp, f"{SEGMENT}:{own_id}"))
            elif segment.state is not SegmentState.DELETE_STARTED:
                changes.append(segment.with_state(SegmentState.DELETE_STARTED, remote_log.claim_epoch))
            elif own_id not in self._deleting and len(self._deleting) < DELETIONS_MAX:
                self._delete(segment)
        if remote_log.empty:
            changes += [Forgotten(remote_log.tp, f"{LEADER}:{epoch}") for epoch in sorted(remote_log.claims)]
            if remote_log.log_start:
                changes.append(Forgotten(remote_log.tp, START))
        if changes:
            self._metadata.append(changes)

    def _delete(self, segment: RemoteSegment) -> None:
        self._deleting.add(segment.segment_id)

        def on_result(error: HelperError, value: object) -> None:
            self._deleting.discard(segment.segment_id)
            if not error:
                log.info("remote segment of a deleted topic deleted: name=%s", segment.name)
                self._deleted.add(segment.segment_id)

        self._helper.request(
            HelperOperation.DELETE, {"name": self._object_name(segment)}, REQUEST_TIMEOUT_MS, on_result
        )

    # -- objects without metadata ----------------------------------------------------------------------------------------------
    def _sweep(self, index: int, tp: TopicPartition) -> None:
        def on_objects(error: HelperError, value: object) -> None:
            if error:
                self._swept_ms.pop(tp, None)
                return
            names = cast("list[str]", value)
            self._replica_manager.hooks.confirm_leadership(lambda confirmed: compare(confirmed, names))

        def compare(confirmed: bool, names: list[str]) -> None:
            # The record of a copy is replicated before the objects of the copy are written. Each listed copy is therefore in the
            # records of this leader or of an earlier one.
            if not confirmed or not self._compare(index, tp, names):
                self._swept_ms.pop(tp, None)

        prefix = f"{self._replica_manager.image.cluster_id}/{tp.topic_id}/{tp.partition}/"
        self._helper.request(HelperOperation.NAMES, {"prefix": prefix}, REQUEST_TIMEOUT_MS, on_objects)

    def _compare(self, index: int, tp: TopicPartition, names: list[str]) -> bool:
        """Delete the objects without metadata. Returns False if not all metadata records have been read."""
        if not self._metadata.refresh(index) or (remote_log := self._logs.get(index, {}).get(tp)) is None:
            return False
        for name in {n.rpartition(".")[0] for n in names if not n.endswith(".partial")}:
            segment_id = name.rpartition("/")[2].partition("-")[2]
            if segment_id and segment_id not in remote_log.segments:
                log.warning("remote object without metadata deleted: name=%s", name)
                self._helper.request(
                    HelperOperation.DELETE, {"name": name}, REQUEST_TIMEOUT_MS, lambda error, value: None
                )
        return True
