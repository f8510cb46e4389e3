"""Work of the leader of a partition on its remote log: claim, copy, finish, delete. A sans-IO core.

Invariants:
  - The leader acts only after its claim was read back from the metadata topic: it then knows every earlier state, and later states of older leaders
    are ignored.
  - A segment is copied when it is closed and below the last stable offset, the next one after the end of the chain, one at a time.
  - A copy that an earlier leader did not finish is deleted, with its objects. A failed copy is deleted in the same way.
  - An object is deleted only after its state is DELETE_SEGMENT_STARTED, and never if its records would then be nowhere (`_is_covered`).
  - A tail move deletes local records only below the end of the chain (`local_start_for`).
  - Everything is repeated until it is read back: a lost request or response only causes a delay.
Does not contain: files, sockets, clocks, the metadata topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from brokerd.cluster.model import Now, TopicPartition
from brokerd.remote.lineage import Chain, EpochEnd, chain_of
from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.retention import retained_start
from brokerd.remote.segments import (
    LEADER,
    SEGMENT,
    Forgotten,
    LeaderClaim,
    LogStart,
    MetadataChange,
    RemoteSegment,
    SegmentState,
    key_of,
)
from brokerd.remote.view import RemoteView

APPEND_RETRY_MS = 3_000
"""An append that was not read back after this time is repeated."""
COPY_RETRY_MS = 5_000
"""Pause after a failed copy or deletion. A store that is away gets one request in this time from each partition."""
DELETIONS_MAX = 32
"""Maximum number of segments of one partition that are deleted at the same time."""
S = SegmentState


@dataclass(frozen=True, slots=True)
class LocalSegment:
    base_offset: int
    end_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LocalLog:
    """The leader's log. `segments`: without the active one. `copies`: `remote.storage.enable` without `remote.log.copy.disable`. `deletes_all`: the topic
    is not tiered any more and its remote records are to be deleted (`remote.log.delete.on.disable`). `replica_starts`: where the logs of new replicas
    start (tail moves); these replicas can join the ISR when the local log starts there."""

    start_offset: int
    end_offset: int
    last_stable: int
    segments: Sequence[LocalSegment]
    active_bytes: int
    end_of_epoch: EpochEnd
    retention_ms: int = -1
    retention_bytes: int = -1
    copies: bool = True
    deletes_all: bool = False
    replica_starts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a finished copy."""

    size_bytes: int
    max_timestamp: int
    epochs: tuple[tuple[int, int], ...]
    aborted_count: int
    key_index_bytes: int = 0
    key_index_seed: int = 0


# -- effects -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AppendRemoteMetadata:
    changes: tuple[MetadataChange, ...]


@dataclass(frozen=True, slots=True)
class CopySegment:
    """`previous`: the remote segment that ends at or overlaps the start of this one; its producer state continues there. None: the first copy."""

    segment: RemoteSegment
    previous: RemoteSegment | None


@dataclass(frozen=True, slots=True)
class DeleteObjects:
    segment: RemoteSegment


@dataclass(frozen=True, slots=True)
class RaiseLocalStart:
    offset: int


Effect = AppendRemoteMetadata | CopySegment | DeleteObjects | RaiseLocalStart


class Stage(Enum):
    STARTING = auto()
    COPYING = auto()
    COPIED = auto()


@dataclass(slots=True)
class Attempt:
    segment: RemoteSegment
    stage: Stage = Stage.STARTING


class RemoteLeader:
    """One leader epoch of one partition. `view` is updated by `decide`."""

    def __init__(
        self, tp: TopicPartition, leader_epoch: int, broker_id: int, remote_log: RemoteLog, draw_id: Callable[[], str]
    ) -> None:
        self.tp, self.leader_epoch, self.broker_id, self.remote_log = tp, leader_epoch, broker_id, remote_log
        self._draw_id = draw_id
        self.view = RemoteView()
        self.attempt: Attempt | None = None
        self.requested_start = 0
        """Clients have deleted the records below (DeleteRecords)."""
        self.failures = 0
        """Number of consecutive failed copies."""
        self._retry_at_ms = 0
        self._sent_ms: dict[bytes, int] = {}
        """{record key and state: time of the append} of appends that were not read back."""
        self._deleting: dict[str, None] = {}
        self._deleted: set[str] = set()
        self._delete_not_before_ms: dict[str, int] = {}

    @property
    def deposed(self) -> bool:
        return self.remote_log.claim_epoch > self.leader_epoch

    @property
    def loaded(self) -> bool:
        claim = self.remote_log.claim
        return claim is not None and (claim.author_epoch, claim.broker_id) == (self.leader_epoch, self.broker_id)

    def request_start(self, offset: int) -> None:
        """A client deletes the records below `offset`."""
        self.requested_start = max(self.requested_start, offset)

    # -- results of effects --------------------------------------------------------------------------------------------------
    def copied(self, segment_id: str, result: Copied | None, now: Now) -> bool:
        """The copy has ended. None: it failed. Returns whether the result is used; the objects of an unused one must be deleted."""
        attempt = self.attempt
        if attempt is None or attempt.segment.segment_id != segment_id or attempt.stage is not Stage.COPYING:
            return False
        if result is None:
            self.attempt = None  # without an attempt it is an unfinished copy, which is deleted
            self.failures += 1
            self._retry_at_ms = now.mono_ms + COPY_RETRY_MS
            return True
        self.failures = 0
        attempt.stage = Stage.COPIED
        attempt.segment = replace(
            attempt.segment,
            state=S.COPY_FINISHED,
            size_bytes=result.size_bytes,
            max_timestamp=result.max_timestamp,
            epochs=result.epochs,
            aborted_count=result.aborted_count,
            key_index_bytes=result.key_index_bytes,
            key_index_seed=result.key_index_seed,
            created_ms=now.wall_ms,
        )
        return True

    def objects_deleted(self, segment_id: str, ok: bool, now: Now) -> None:
        self._deleting.pop(segment_id, None)
        if ok:
            self._deleted.add(segment_id)
        else:
            self._delete_not_before_ms[segment_id] = now.mono_ms + COPY_RETRY_MS

    # -- decisions -----------------------------------------------------------------------------------------------------------
    def decide(self, local: LocalLog, now: Now) -> list[Effect]:
        """The next actions. Called after each change and periodically."""
        if self.deposed:
            return []
        changes: list[MetadataChange] = []
        if not self.loaded:
            changes.append(LeaderClaim(self.tp, self.leader_epoch, self.broker_id))
            return self._with_appends([], changes, now)
        remote, effects = self.remote_log, list[Effect]()
        chain = chain_of(list(remote.segments.values()), local.end_of_epoch)
        self.view.loaded, self.view.chain, self.view.log_start = True, chain, remote.log_start
        changes += self._repairs()
        self._continue_attempt(chain, changes, effects)
        self._retain(local, chain, now, changes, effects)
        self._delete(local, chain, now, changes, effects)
        if self.attempt is None and local.copies and now.mono_ms >= self._retry_at_ms:
            self._begin_copy(local, chain, changes)
        return self._with_appends(effects, changes, now)

    def _with_appends(self, effects: list[Effect], changes: list[MetadataChange], now: Now) -> list[Effect]:
        due = []
        sent: dict[bytes, int] = {}
        for change in changes:
            key = key_of(change) + b" " + str(getattr(change, "state", getattr(change, "offset", ""))).encode()
            at = self._sent_ms.get(key)
            if at is None or now.mono_ms - at >= APPEND_RETRY_MS:
                due.append(change)
                at = now.mono_ms
            sent[key] = at
        self._sent_ms = sent
        return [AppendRemoteMetadata(tuple(due)), *effects] if due else effects

    def _repairs(self) -> list[MetadataChange]:
        remote = self.remote_log
        out: list[MetadataChange] = [
            s.with_state(s.state, self.leader_epoch) for i in remote.stale if (s := remote.segments.get(i)) is not None
        ]
        if remote.start_stale:
            out.append(LogStart(self.tp, self.leader_epoch, remote.log_start))
        out += [Forgotten(self.tp, f"{LEADER}:{epoch}") for epoch in remote.old_claims]
        return out

    # -- copying -------------------------------------------------------------------------------------------------------------
    def _begin_copy(self, local: LocalLog, chain: Chain, changes: list[MetadataChange]) -> None:
        candidate = next_to_copy(local, chain)
        if candidate is None:
            return
        segment = RemoteSegment(
            self.tp,
            self._draw_id(),
            S.COPY_STARTED,
            self.leader_epoch,
            candidate.base_offset,
            candidate.end_offset,
            candidate.size_bytes,
        )
        self.attempt = Attempt(segment)
        changes.append(segment)

    def _continue_attempt(self, chain: Chain, changes: list[MetadataChange], effects: list[Effect]) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        known = self.remote_log.segments.get(attempt.segment.segment_id)
        if known is not None and known.state in (S.DELETE_STARTED, S.DELETE_FINISHED):
            self.attempt = None
        elif attempt.stage is Stage.STARTING:
            if known is None:
                changes.append(attempt.segment)
                return
            attempt.stage = Stage.COPYING
            before = chain.segments[-1] if chain.segments else None
            if before is not None and not before.start_offset <= attempt.segment.start_offset <= before.end_offset:
                before = None
            effects.append(CopySegment(attempt.segment, before))
        elif attempt.stage is Stage.COPIED:
            if known is not None and known.state is S.COPY_FINISHED:
                self.attempt = None
            else:
                changes.append(attempt.segment)

    # -- deleting ------------------------------------------------------------------------------------------------------------
    def _retain(
        self, local: LocalLog, chain: Chain, now: Now, changes: list[MetadataChange], effects: list[Effect]
    ) -> None:
        remote = self.remote_log
        start = max(remote.log_start, min(self.requested_start, local.end_offset))
        if local.deletes_all:
            start = max(start, local.start_offset)
        elif chain.segments:
            above = local.active_bytes + sum(s.size_bytes for s in local.segments if s.base_offset >= chain.end)
            start = retained_start(chain, above, local.retention_ms, local.retention_bytes, now.wall_ms, start)
        if start > remote.log_start:
            changes.append(LogStart(self.tp, self.leader_epoch, start))
        if remote.log_start > local.start_offset:
            effects.append(RaiseLocalStart(remote.log_start))
        local_start = local_start_for(local.replica_starts, self.view.copied_end(local.start_offset))
        if local_start > max(local.start_offset, remote.log_start):
            effects.append(RaiseLocalStart(local_start))

    def _delete(
        self, local: LocalLog, chain: Chain, now: Now, changes: list[MetadataChange], effects: list[Effect]
    ) -> None:
        remote, epoch = self.remote_log, self.leader_epoch
        current = self.attempt.segment.segment_id if self.attempt is not None else None
        used = {s.segment_id for s in chain.segments}
        for segment in list(remote.segments.values()):
            own_id = segment.segment_id
            if segment.state is S.COPY_STARTED and own_id != current:
                if self._is_covered(segment, local, chain, remote.log_start):
                    changes.append(segment.with_state(S.DELETE_STARTED, epoch))
            elif segment.state is S.COPY_FINISHED:
                below = segment.end_offset <= remote.log_start or (
                    local.deletes_all and remote.log_start >= local.start_offset
                )
                unused = own_id not in used and own_id != current and segment.end_offset <= local.end_offset
                if below or (unused and self._is_covered(segment, local, chain, remote.log_start)):
                    changes.append(segment.with_state(S.DELETE_STARTED, epoch))
            elif segment.state is S.DELETE_STARTED:
                if own_id in self._deleted:
                    changes.append(segment.with_state(S.DELETE_FINISHED, epoch))
                elif (
                    own_id not in self._deleting
                    and len(self._deleting) < DELETIONS_MAX
                    and now.mono_ms >= self._delete_not_before_ms.get(own_id, 0)
                    and own_id not in remote.stale
                ):
                    self._deleting[own_id] = None
                    effects.append(DeleteObjects(segment))
            elif segment.state is S.DELETE_FINISHED:
                changes.append(Forgotten(self.tp, f"{SEGMENT}:{own_id}"))

    @staticmethod
    def _is_covered(segment: RemoteSegment, local: LocalLog, chain: Chain, log_start: int) -> bool:
        """Return whether the records of `segment` that are not deleted are also in the chain or in the local log."""
        joined = chain.segments and chain.start <= local.start_offset <= chain.end
        lowest = min(chain.start, local.start_offset) if joined else local.start_offset
        return segment.end_offset <= log_start or lowest <= max(log_start, segment.start_offset)


def local_start_for(replica_starts: Sequence[int], copied_end: int) -> int:
    """The local log start with which new replicas can join the ISR: the highest of `replica_starts` below which every record has a finished copy. -1:
    none."""
    return max((start for start in replica_starts if start <= copied_end), default=-1)


def next_to_copy(local: LocalLog, chain: Chain) -> LocalSegment | None:
    """The first closed segment that has records above the chain, if all its records are below the last stable offset."""
    for segment in local.segments:
        if segment.end_offset > chain.end and segment.size_bytes:
            return segment if segment.end_offset <= local.last_stable else None
    return None
