"""A share group (KIP-932; Kafka: ShareGroup). Pure state machine without clock and random numbers.

Invariants: a response is sent after all state that it depends on is replicated. Only partitions whose state the share coordinator has initialized
are assigned. Several members may have the same partition, so an assignment needs no reconciliation.

| epoch in the heartbeat  | member      | result                                         |
|-------------------------|-------------|------------------------------------------------|
| 0                       | is new      | it joins                                       |
| 0                       | is known    | it restarted: it gets its whole assignment     |
| its epoch, previous one |             | it stays and gets its assignment if it changed |
| any other               |             | FENCED_MEMBER_EPOCH                            |
| -1                      |             | it leaves                                      |
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.config.share_groups import ShareGroupConfig
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import Completed, Reply
from brokerd.coordinator.classic.offsets import GroupOffsets
from brokerd.coordinator.consumer.assignors import EMPTY_ASSIGNMENT
from brokerd.coordinator.consumer.events import Topics
from brokerd.coordinator.reply_callback import ReplyCallback
from brokerd.coordinator.share_group.assignor import simple
from brokerd.coordinator.share_group.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    InitializeState,
    OffsetsAltered,
    PersistShareChanges,
    ShareGroupState,
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareMemberAssignment,
    ShareMemberMetadata,
    ShareRecordKey,
    StateDeleted,
    StateInitialized,
    StatePartitions,
)
from brokerd.coordinator.share_group.state import PersistedShareGroup
from brokerd.wire.errors import ErrorCode

EXPIRY_RETRY_MS = 1_000
"""Pause before the removal of an expired member is tried again after the log rejected it."""
SOON_MS = 500
"""Heartbeat interval of a member whose assignment is not complete: the state of its partitions is being initialized, or the assignment interval
has not passed."""

Event = (
    ShareHeartbeat
    | StateInitialized
    | StateDeleted
    | OffsetsAltered
    | events.Persisted
    | events.PersistFailed
    | events.Tick
)
Effect = events.Effect | PersistShareChanges | InitializeState
StateTopics = Mapping[UUID, tuple[str, frozenset[int]]]


@dataclass(slots=True, kw_only=True)
class ShareGroup(PersistedShareGroup):
    topics: Topics
    config: ShareGroupConfig
    commits: GroupOffsets = field(default_factory=GroupOffsets)
    """The number of the last write. A share group commits no offsets."""
    sessions: dict[str, int] = field(default_factory=dict)
    """{member id: end of its session (mono ms)}."""
    dead: bool = False
    _seen: int = -1
    """The version of the topics at which the assignable partitions were last compared."""
    _next_deadline_ms: int | None = None
    _last_assignment_ms: int | None = None
    _initializing: bool = False
    """The share coordinator is initializing partitions. A second request during this time could reset state that is already in use."""
    _pending_replies: dict[int, list[tuple[ReplyCallback, object]]] = field(default_factory=dict)
    """{number of a write: (token, response) pairs that wait for it}."""

    # -- handling ------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case ShareHeartbeat():
                self.begin(now.wall_ms)
                response = self._heartbeat(event, now)
                effects = self._persist_and_reply((event.token, response))
                return effects if response.error else [*effects, *self._initialize()]
            case StateInitialized():
                self.begin(now.wall_ms)
                self._on_initialized(event)
                return self._persist_and_reply()
            case OffsetsAltered():
                self.begin(now.wall_ms)
                if self.members:
                    return [Reply(event.token, Completed(ErrorCode.NON_EMPTY_GROUP))]
                self._on_initialized(StateInitialized(event.partitions))
                self._raise_epoch()
                return self._persist_and_reply((event.token, Completed(ErrorCode.NONE)))
            case StateDeleted():
                self.begin(now.wall_ms)
                self._forget_topics(event.topics)
                return self._persist_and_reply((event.token, Completed(ErrorCode.NONE)))
            case events.Persisted():
                done = sorted(n for n in self._pending_replies if n <= event.number)
                return [Reply(token, response) for n in done for token, response in self._pending_replies.pop(n)]
            case events.PersistFailed():
                return self._on_write_rejected(event)
            case events.Tick():
                return self._tick(now)

    def deadline_ms(self) -> int | None:
        """Return the earliest time at which a timer may expire (monotonic ms)."""
        return self._next_deadline_ms

    @property
    def state(self) -> ShareGroupState:
        if self.dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    # -- heartbeats ----------------------------------------------------------------------------------------------------
    def _heartbeat(self, event: ShareHeartbeat, now: Now) -> ShareHeartbeatReply:
        rejected = self._membership_error(event)
        if rejected is not None:
            return rejected
        if event.epoch == LEAVE_GROUP_MEMBER_EPOCH:
            self._remove(event.member_id)
            self._raise_epoch()
            return ShareHeartbeatReply(ErrorCode.NONE, None, event.member_id, event.epoch)
        before = self.current_assignments.get(event.member_id, ShareMemberAssignment())
        self._update_member(event)
        pause_ms = 0
        if self.target_epoch < self.epoch:
            pause_ms = self._assignment_delay_ms(now)
            if not pause_ms:
                self._assign()
                self._last_assignment_ms = now.mono_ms
        after = self.current_assignments.get(event.member_id, ShareMemberAssignment())
        target = self.targets.get(event.member_id)
        if target is None:
            # The member waits for the assignment of the group epoch, so its member epoch must be lower.
            target = EMPTY_ASSIGNMENT
        if after.epoch != self.target_epoch:
            after = ShareMemberAssignment(self.target_epoch, before.epoch, target)
        self.change(ShareRecordKey.CURRENT_ASSIGNMENT, event.member_id, after)
        self._restart_session(event.member_id, now)
        whole = event.epoch == JOIN_GROUP_MEMBER_EPOCH or event.topics is not None
        send_assignment = whole or after.assigned != before.assigned or event.epoch != before.epoch
        unfinished = bool(pause_ms or self._uninitialized_partitions())
        return ShareHeartbeatReply(
            ErrorCode.NONE,
            None,
            event.member_id,
            after.epoch,
            min(SOON_MS, self.config.heartbeat_ms) if unfinished else self.config.heartbeat_ms,
            after.assigned if send_assignment else None,
        )

    def _membership_error(self, event: ShareHeartbeat) -> ShareHeartbeatReply | None:
        if self.dead:
            return ShareHeartbeatReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        known = event.member_id in self.members
        if not known and event.epoch != JOIN_GROUP_MEMBER_EPOCH:
            return ShareHeartbeatReply(
                ErrorCode.UNKNOWN_MEMBER_ID, "the member is not in the group: join it with epoch 0"
            )
        if not known and len(self.members) >= self.config.size_max:
            text = f"the group has {len(self.members)} members, which is the maximum (group.share.max.size)"
            return ShareHeartbeatReply(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        if known and event.epoch > JOIN_GROUP_MEMBER_EPOCH:
            at = self.current_assignments[event.member_id]
            if event.epoch not in (at.epoch, at.previous_epoch):
                text = f"the member is in epoch {at.epoch}, not {event.epoch}: join again with epoch 0"
                return ShareHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return None

    def _assignment_delay_ms(self, now: Now) -> int:
        if not self.target_epoch or self._last_assignment_ms is None:
            return 0
        return max(0, self._last_assignment_ms + self.config.assignment_ms - now.mono_ms)

    def _update_member(self, event: ShareHeartbeat) -> None:
        old = self.members.get(event.member_id)
        new = ShareMemberMetadata(
            event.rack_id if event.rack_id is not None or old is None else old.rack_id,
            event.client_id,
            event.client_host,
            event.topics if event.topics is not None else old.topics if old is not None else frozenset(),
        )
        self.change(ShareRecordKey.MEMBER, event.member_id, new)
        # A member without a target assignment: the previous coordinator failed during the join.
        lost = event.member_id not in self.targets and self.target_epoch == self.epoch
        if old is None or old.topics != new.topics or lost:
            self._raise_epoch()
        elif self._seen != self.topics.version:
            self._raise_epoch(only_if_partitions_changed=True)

    def _remove(self, member_id: str) -> None:
        for fact in (ShareRecordKey.CURRENT_ASSIGNMENT, ShareRecordKey.TARGET_ASSIGNMENT, ShareRecordKey.MEMBER):
            self.change(fact, member_id, None)

    # -- assignment ----------------------------------------------------------------------------------------------------
    def subscribed_names(self) -> frozenset[str]:
        return frozenset[str]().union(*(m.topics for m in self.members.values()))

    def _subscribed_partitions(self) -> dict[UUID, tuple[str, frozenset[int]]]:
        """All partitions of the subscribed topics that exist."""
        found = ((name, self.topics.topic_named(name)) for name in sorted(self.subscribed_names()))
        return {at[0]: (name, frozenset(range(at[1]))) for name, at in found if at is not None}

    def assignable(self) -> dict[UUID, frozenset[int]]:
        """The subscribed partitions with initialized state."""
        ready = self.state_partitions.initialized
        return {
            t: ps & ready[t][1]
            for t, (_, ps) in self._subscribed_partitions().items()
            if t in ready and ps & ready[t][1]
        }

    def _raise_epoch(self, only_if_partitions_changed: bool = False) -> None:
        self._seen = self.topics.version
        shown = [(str(t), sorted(ps)) for t, ps in sorted(self.assignable().items())]
        digest = hashlib.blake2b(repr(shown).encode(), digest_size=8).digest()
        topics_hash = int.from_bytes(digest, "big", signed=True) if shown else 0
        if not only_if_partitions_changed or topics_hash != self.topics_hash:
            self.change(ShareRecordKey.GROUP, "", (self.epoch + 1, topics_hash))

    def _assign(self) -> None:
        ids = {name: at[0] for name in self.subscribed_names() if (at := self.topics.topic_named(name)) is not None}
        subscriptions = {m: frozenset(ids[t] for t in x.topics if t in ids) for m, x in self.members.items()}
        for member_id, assigned in simple(subscriptions, self.assignable(), self.targets).items():
            self.change(ShareRecordKey.TARGET_ASSIGNMENT, member_id, assigned)
        self.change(ShareRecordKey.TARGET_EPOCH, "", self.epoch)

    # -- state of the partitions -----------------------------------------------------------------------------------------
    def _uninitialized_partitions(self) -> StateTopics:
        at = self.state_partitions
        missing = {
            t: (name, ps - (at.initialized[t][1] if t in at.initialized else frozenset()))
            for t, (name, ps) in self._subscribed_partitions().items()
            if t not in at.deleting
        }
        return {t: found for t, found in missing.items() if found[1]}

    def _initialize(self) -> list[Effect]:
        missing = self._uninitialized_partitions()
        if not missing or self._initializing:
            return []
        self._initializing = True
        return [InitializeState(missing, max(1, self.epoch))]

    def _on_initialized(self, e: StateInitialized) -> None:
        self._initializing = False
        if not e.partitions:
            return
        at = dict(self.state_partitions.initialized)
        for topic_id, (name, partitions) in e.partitions.items():
            at[topic_id] = (name, partitions | (at[topic_id][1] if topic_id in at else frozenset()))
        self.change(ShareRecordKey.STATE_PARTITIONS, "", replace(self.state_partitions, initialized=at))
        self._raise_epoch(only_if_partitions_changed=True)

    def _forget_topics(self, topics: frozenset[UUID]) -> None:
        at = self.state_partitions
        left = {t: x for t, x in at.initialized.items() if t not in topics}
        starting = {t: x for t, x in at.initializing.items() if t not in topics}
        deleting = {t: x for t, x in at.deleting.items() if t not in topics}
        self.change(ShareRecordKey.STATE_PARTITIONS, "", StatePartitions(starting, left, deleting))
        if self.members:
            self._raise_epoch(only_if_partitions_changed=True)

    # -- writes ------------------------------------------------------------------------------------------------------------
    def _persist_and_reply(self, *responses: tuple[ReplyCallback, object]) -> list[Effect]:
        """Persist the changes. The responses wait for this write, or for the last pending one if nothing changed."""
        if self.changes:
            number = self.commits.next_number()
            self._pending_replies[number] = list(responses)
            # The record of the group epoch comes first. So after any prefix of the records the next coordinator computes the target assignment again.
            first = sorted(self.changes, key=lambda c: c.fact is not ShareRecordKey.GROUP)
            return [PersistShareChanges(number, tuple(first))]
        if self._pending_replies:
            self._pending_replies[max(self._pending_replies)] += responses
            return []
        return [Reply(token, response) for token, response in responses]

    @property
    def has_pending_replies(self) -> bool:
        return bool(self._pending_replies)

    def _on_write_rejected(self, e: events.PersistFailed) -> list[Effect]:
        """The last write failed before the append, so roll back. After any other failure the shard is loaded again."""
        responses = self._pending_replies.pop(e.number, None)
        if responses is None:
            return []
        self.roll_back()
        self._seen = -1
        return [Reply(token, _with_error(response, e.error)) for token, response in responses]

    def unload(self) -> list[Effect]:
        """Answer all waiting requests: another broker leads the partition."""
        effects: list[Effect] = [
            Reply(token, _with_error(response, ErrorCode.NOT_COORDINATOR))
            for _, responses in sorted(self._pending_replies.items())
            for token, response in responses
        ]
        self._pending_replies.clear()
        self.dead = True
        return effects

    # -- time ----------------------------------------------------------------------------------------------------------------
    def reset_session_timeouts(self, now: Now) -> None:
        """Start every session again after a load or a time without heartbeats."""
        self.purge()
        for member_id in self.members:
            self._restart_session(member_id, now)

    def end(self) -> None:
        """Mark the deleted group as dead."""
        self.dead = True

    def _restart_session(self, member_id: str, now: Now) -> None:
        ends = self.sessions[member_id] = now.mono_ms + self.config.session_ms
        self._next_deadline_ms = ends if self._next_deadline_ms is None else min(self._next_deadline_ms, ends)

    def _tick(self, now: Now) -> list[Effect]:
        self.begin(now.wall_ms)
        for member_id in [m for m, ends in self.sessions.items() if ends <= now.mono_ms]:
            if member_id in self.members:
                self.sessions[member_id] = now.mono_ms + EXPIRY_RETRY_MS
                self._remove(member_id)
            else:
                del self.sessions[member_id]
        if self.changes:
            self._raise_epoch()
        self._next_deadline_ms = min(self.sessions.values(), default=None)
        return self._persist_and_reply()

    # -- checks --------------------------------------------------------------------------------------------------------------
    def validate(self) -> None:
        PersistedShareGroup.validate(self)
        assert self.members.keys() <= self.sessions.keys(), f"{self.group_id}: a member without a session"

    def describe(self) -> dict[str, object]:
        return {
            "group": self.group_id,
            "state": self.state.value,
            "epoch": self.epoch,
            "target_epoch": self.target_epoch,
            "members": sorted(self.members),
        }


def _with_error(response: object, error: int) -> ShareHeartbeatReply | Completed:
    if isinstance(response, ShareHeartbeatReply):
        return ShareHeartbeatReply(error, member_id=response.member_id)
    return Completed(error)
