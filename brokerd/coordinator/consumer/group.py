"""A group of the consumer protocol (KIP-848; Kafka: ConsumerGroup). Pure state machine without clock and random numbers.

Invariants: a partition has one owner. A response is sent after all state that it depends on is replicated. A heartbeat with another epoch is
fenced. `group_state` has the persisted state, `assignment` and `assignors` the target assignments, `reconciliation` the steps of a member.

| epoch in the heartbeat  | member                          | result                                                           |
|-------------------------|---------------------------------|------------------------------------------------------------------|
| 0                       | is new                          | it joins                                                         |
| 0                       | is known                        | it restarted: it gets its whole assignment                       |
| 0, an instance id       | left with -2, other member id   | it replaces the static member and gets its assignment            |
| 0, an instance id       | is active, other member id      | UNRELEASED_INSTANCE_ID                                           |
| its epoch               |                                 | it stays, next step of the reconciliation                        |
| previous, with owned    | missed the last response        | it stays, the response is sent again                             |
| any other               |                                 | FENCED_MEMBER_EPOCH                                              |
| -1                      |                                 | it leaves                                                        |
| -2, an instance id      |                                 | it leaves; its assignment is kept until the session ends         |
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import (
    Completed,
    Joined,
    Reply,
    Synced,
)
from brokerd.coordinator.classic.offsets import GroupOffsets
from brokerd.coordinator.consumer.assignment import TargetAssignmentBuilder
from brokerd.coordinator.consumer.assignors import EMPTY_ASSIGNMENT, Assignment
from brokerd.coordinator.consumer.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    GroupRecordKey,
    GroupState,
    MemberMetadata,
    PersistChanges,
    ResolvedRegularExpression,
)
from brokerd.coordinator.consumer.heartbeat_validation import membership_error
from brokerd.coordinator.consumer.patterns import Pattern, PatternError
from brokerd.coordinator.consumer.reconciliation import MemberAssignment, MemberState, reconcile
from brokerd.coordinator.reply_callback import ReplyCallback
from brokerd.wire.errors import ErrorCode

EXPIRY_RETRY_MS = 1_000
"""Pause before the removal of an expired member is tried again after the log rejected it."""

Event = (
    ConsumerHeartbeat
    | events.Commit
    | events.TransactionalCommit
    | events.Persisted
    | events.PersistFailed
    | events.Tick
)
Effect = events.Effect | PersistChanges


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMachine(TargetAssignmentBuilder):
    commits: GroupOffsets = field(default_factory=GroupOffsets)
    sessions: dict[str, int] = field(default_factory=dict)
    """{member id: end of its session (mono ms)}."""
    revocations: dict[str, tuple[Assignment, int]] = field(default_factory=dict)
    """{member id: (partitions to revoke, deadline (mono ms))}."""
    dead: bool = False
    _last_assignment_ms: int | None = None
    """Time of the last target assignment by this coordinator (mono ms)."""
    _next_deadline_ms: int | None = None
    """Earliest time at which a timer can expire (mono ms); None: no timer runs."""
    _pending_replies: dict[int, list[tuple[ReplyCallback, object]]] = field(default_factory=dict)
    """{number of a write: (token, response) pairs that wait for it}."""

    # -- handling ------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case ConsumerHeartbeat():
                self.begin(now.wall_ms)
                response = self._consumer_heartbeat(event, now)
                assert not response.error or not self.changes, (
                    f"{self.group_id}: a rejected heartbeat changed the group"
                )
                return self._persist_and_reply((event.token, response))
            case events.Commit():
                return self._commit(event, now)
            case events.TransactionalCommit():
                return self._commit_in_transaction(event, now)
            case events.Persisted():
                committed = self.commits.on_persisted(event)
                return [*committed] if committed is not None else self._on_persisted(event.number)
            case events.PersistFailed():
                rejected = self.commits.on_persist_failed(event)
                return [*rejected] if rejected is not None else self._on_write_rejected(event)
            case events.Tick():
                return self._tick(now)

    def deadline_ms(self) -> int | None:
        """Return the earliest time at which a timer may expire (monotonic ms)."""
        return self._next_deadline_ms

    @property
    def state(self) -> GroupState:
        if self.dead:
            return GroupState.DEAD
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = all(
            s.state is MemberState.STABLE and s.epoch in (self.target_epoch, LEAVE_GROUP_STATIC_MEMBER_EPOCH)
            for s in self.current_assignments.values()
        )
        return GroupState.STABLE if settled else GroupState.RECONCILING

    # -- heartbeats ----------------------------------------------------------------------------------------------------
    def _consumer_heartbeat(self, event: ConsumerHeartbeat, now: Now) -> ConsumerHeartbeatReply:
        if self.dead:
            return ConsumerHeartbeatReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if event.assignor is not None and event.assignor not in self.group_config.assignors:
            known = ", ".join(self.group_config.assignors)
            return ConsumerHeartbeatReply(
                ErrorCode.UNSUPPORTED_ASSIGNOR, f"unsupported assignor {event.assignor!r}; supported: {known}"
            )
        rejected = membership_error(self, event)
        if rejected is not None:
            return rejected
        if event.pattern and event.pattern not in self.patterns:
            try:
                found = Pattern(event.pattern).among(filter(event.may_describe, self.topics.names()))
            except PatternError as problem:
                return ConsumerHeartbeatReply(
                    ErrorCode.INVALID_REGULAR_EXPRESSION, f"invalid regular expression: {problem}"
                )
            self.change(
                GroupRecordKey.REGULAR_EXPRESSION,
                event.pattern,
                ResolvedRegularExpression(found, self.topics.version, now.wall_ms),
            )
        if event.epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leave(event)
        before = self.current_assignments.get(event.member_id, MemberAssignment())
        if event.instance_id is not None and event.member_id not in self.members and event.instance_id in self.static:
            before = self._replace_static_member(self.static[event.instance_id], event.member_id)
        self._update_member(event, now)
        pause_ms = 0
        if self.target_epoch < self.epoch:
            pause_ms = self._assignment_delay_ms(event, now)
            if pause_ms:
                # KIP-1263: more members may join during the delay. Until then the new member has an empty target in the current epoch.
                self.change(
                    GroupRecordKey.TARGET_ASSIGNMENT,
                    event.member_id,
                    self.targets.get(event.member_id, EMPTY_ASSIGNMENT),
                )
            else:
                self._assign()
                self._last_assignment_ms = now.mono_ms
        after = reconcile(
            self.current_assignments[event.member_id],
            self.targets.get(event.member_id, EMPTY_ASSIGNMENT),
            self.target_epoch,
            event.owned,
            lambda tp: self.owners.get(tp, event.member_id) == event.member_id,
        )
        self.change(GroupRecordKey.CURRENT_ASSIGNMENT, event.member_id, after)
        self._restart_session(event.member_id, now)
        whole = event.epoch == JOIN_GROUP_MEMBER_EPOCH or (
            event.rebalance_ms >= 0
            and (event.topics is not None or event.pattern is not None)
            and event.owned is not None
        )
        send_assignment = whole or after.assigned != before.assigned or event.epoch != before.epoch
        beat_ms = min(self.group_config.heartbeat_ms, pause_ms or self.group_config.heartbeat_ms)
        return ConsumerHeartbeatReply(
            ErrorCode.NONE, None, event.member_id, after.epoch, beat_ms, after.assigned if send_assignment else None
        )

    def _assignment_delay_ms(self, e: ConsumerHeartbeat, now: Now) -> int:
        """The delay (ms) of the next target assignment. 0 for members of the classic protocol, because a delay would make them rejoin repeatedly."""
        if not self.target_epoch or e.classic is not None or self._last_assignment_ms is None:
            return 0
        return max(0, self._last_assignment_ms + self.group_config.assignment_ms - now.mono_ms)

    def _update_member(self, event: ConsumerHeartbeat, now: Now) -> None:
        """Update the member's metadata. A change of the subscription increases the group epoch."""
        old = self.members.get(event.member_id)
        # Metadata that the member sent with the other protocol is dropped.
        previous = old if old is not None and (old.classic is None) == (event.classic is None) else None
        member_metadata = MemberMetadata(
            event.instance_id if event.instance_id is not None or old is None else old.instance_id,
            event.rack_id if event.rack_id is not None or previous is None else previous.rack_id,
            event.client_id,
            event.client_host,
            event.topics if event.topics is not None else previous.topics if previous is not None else frozenset(),
            (event.pattern or None)
            if event.pattern is not None
            else previous.pattern
            if previous is not None
            else None,
            event.rebalance_ms if event.rebalance_ms >= 0 or previous is None else previous.rebalance_ms,
            event.assignor if event.assignor is not None or previous is None else previous.assignor,
            event.classic,
        )
        self.change(GroupRecordKey.MEMBER, event.member_id, member_metadata)
        subscription_changed = old is None or (old.topics, old.pattern) != (
            member_metadata.topics,
            member_metadata.pattern,
        )
        # A member without a target assignment: the previous coordinator failed during the join.
        subscription_changed = subscription_changed or event.member_id not in self.targets
        if subscription_changed or self._seen != self.topics.version:
            self._resolve(event, now)
            self._raise_epoch(only_if_topics_changed=not subscription_changed)

    def _leave(self, event: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        if event.epoch == LEAVE_GROUP_MEMBER_EPOCH:
            self._remove(event.member_id)
            self._raise_epoch()
        else:
            # A leaving static member has revoked its partitions. Its assignment is kept.
            at = self.current_assignments[event.member_id]
            away = at.with_changes(
                epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, state=MemberState.STABLE, revoking=EMPTY_ASSIGNMENT
            )
            self.change(GroupRecordKey.CURRENT_ASSIGNMENT, event.member_id, away)
            self.revocations.pop(event.member_id, None)
        return ConsumerHeartbeatReply(ErrorCode.NONE, None, event.member_id, event.epoch)

    def _remove(self, member_id: str) -> None:
        for fact in (GroupRecordKey.CURRENT_ASSIGNMENT, GroupRecordKey.TARGET_ASSIGNMENT, GroupRecordKey.MEMBER):
            self.change(fact, member_id, None)

    def _replace_static_member(self, old_id: str, new_id: str) -> MemberAssignment:
        """A static member restarted with a new member id: it gets the assignment of the old one. Other target assignments do not change."""
        member_metadata, target = self.members[old_id], self.targets.get(old_id, EMPTY_ASSIGNMENT)
        had = self.current_assignments[old_id].assigned
        current = MemberAssignment(assigned=had, assignment_epochs=dict.fromkeys(had, self.epoch))
        for fact in (GroupRecordKey.CURRENT_ASSIGNMENT, GroupRecordKey.TARGET_ASSIGNMENT, GroupRecordKey.MEMBER):
            self.change(fact, old_id, None)
        self.change(GroupRecordKey.MEMBER, new_id, member_metadata)
        self.change(GroupRecordKey.TARGET_ASSIGNMENT, new_id, target)
        self.change(GroupRecordKey.CURRENT_ASSIGNMENT, new_id, current)
        return current

    # -- writes ------------------------------------------------------------------------------------------------------------
    def _persist_and_reply(self, *responses: tuple[ReplyCallback, object]) -> list[Effect]:
        """Persist the changes. The responses wait for this write, or for the last pending one if nothing changed."""
        if self.changes:
            number = self.commits.next_number()
            self._pending_replies[number] = list(responses)
            # The record of the group epoch comes first. So after any prefix of the records the next coordinator computes the target assignment again.
            return [
                PersistChanges(number, tuple(sorted(self.changes, key=lambda c: c.fact is not GroupRecordKey.GROUP)))
            ]
        if self._pending_replies:
            self._pending_replies[max(self._pending_replies)] += responses
            return []
        return [Reply(token, response) for token, response in responses]

    @property
    def has_pending_replies(self) -> bool:
        """True if replies wait for a write."""
        return bool(self._pending_replies)

    def _on_persisted(self, number: int) -> list[Effect]:
        """Send the replies of this write and of all earlier ones, which are replicated with it."""
        done = sorted(n for n in self._pending_replies if n <= number)
        return [Reply(token, response) for n in done for token, response in self._pending_replies.pop(n)]

    def _on_write_rejected(self, e: events.PersistFailed) -> list[Effect]:
        """The last write failed before the append, so roll back. After any other failure the shard is loaded again."""
        responses = self._pending_replies.pop(e.number, None)
        if responses is None:
            return []
        self.roll_back()
        self._seen = -1
        return [Reply(token, with_error(response, e.error)) for token, response in responses]

    def unload(self) -> list[Effect]:
        """Answer all waiting requests: another broker leads the partition."""
        effects: list[Effect] = [
            Reply(token, with_error(response, ErrorCode.NOT_COORDINATOR))
            for _, responses in sorted(self._pending_replies.items())
            for token, response in responses
        ]
        self._pending_replies.clear()
        self.dead = True
        return [*effects, *self.commits.unload()]

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
        classic = self.members[member_id].classic
        ends = now.mono_ms + (self.group_config.session_ms if classic is None else classic.session_ms)
        self.sessions[member_id] = ends
        at = self.current_assignments[member_id]
        if at.state is not MemberState.UNREVOKED:
            self.revocations.pop(member_id, None)
        elif self.revocations.get(member_id, (EMPTY_ASSIGNMENT, 0))[0] != at.revoking:
            by = now.mono_ms + self.members[member_id].rebalance_ms
            self.revocations[member_id] = (at.revoking, by)
            ends = min(ends, by)
        self._next_deadline_ms = ends if self._next_deadline_ms is None else min(self._next_deadline_ms, ends)

    def _tick(self, now: Now) -> list[Effect]:
        self.begin(now.wall_ms)
        for member_id in self._expired_members(now):
            self.revocations.pop(member_id, None)
            if member_id in self.members:
                self.sessions[member_id] = now.mono_ms + EXPIRY_RETRY_MS
                self._remove(member_id)
            else:
                del self.sessions[member_id]
        if self.changes:
            self._raise_epoch()
        self._next_deadline_ms = min(self._deadlines(), default=None)
        return self._persist_and_reply()

    def _expired_members(self, now: Now) -> list[str]:
        """Members whose session or revocation deadline has passed."""
        late = [m for m, at in self.sessions.items() if at <= now.mono_ms]
        return late + [m for m, (_, by) in self.revocations.items() if by <= now.mono_ms and m not in late]

    def _deadlines(self) -> list[int]:
        return [*self.sessions.values(), *(by for _, by in self.revocations.values())]

    # -- offsets ---------------------------------------------------------------------------------------------------------
    def epoch_error(self, member_id: str, epoch: int, instance_id: str | None = None) -> int:
        """The error of a request of this member and epoch to commit or fetch offsets."""
        if self.dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and self.static.get(instance_id, member_id) != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        at = self.current_assignments.get(member_id)
        if at is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == at.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if self.members[member_id].classic is None else ErrorCode.ILLEGAL_GENERATION

    def _commit(self, event: events.Commit, now: Now) -> list[Effect]:
        if event.generation < 0 and not self.members:
            rejected = Completed(ErrorCode.COORDINATOR_NOT_AVAILABLE if self.dead else ErrorCode.NONE)
            self.empty_since_wall_ms = self.empty_since_wall_ms or now.wall_ms
        else:
            rejected = self._rejected_offsets(event)
        if rejected.error or len(rejected.partition_errors) == len(event.offsets):
            return [Reply(event.token, rejected)]
        return [*self.commits.commit(event, rejected.partition_errors)]

    def _commit_in_transaction(self, event: events.TransactionalCommit, now: Now) -> list[Effect]:
        """Clients before KIP-447 name no member: they are accepted, because the transaction fences them."""
        named = event.generation >= 0 or event.member_id or event.instance_id is not None
        without_members = event.generation < 0 and not self.members  # as in `_commit`
        rejected = self._rejected_offsets(event) if named and not without_members else Completed(ErrorCode.NONE)
        # Clients expect ILLEGAL_GENERATION as the error of a TxnOffsetCommit with an old member epoch.
        error = ErrorCode.ILLEGAL_GENERATION if rejected.error == ErrorCode.STALE_MEMBER_EPOCH else rejected.error
        rejected = Completed(error, dict.fromkeys(rejected.partition_errors, ErrorCode.ILLEGAL_GENERATION))
        if error or len(rejected.partition_errors) == len(event.offsets):
            return [Reply(event.token, rejected)]
        return [*self.commits.commit_in_transaction(event, rejected.partition_errors)]

    def _rejected_offsets(self, event: events.Commit | events.TransactionalCommit) -> Completed:
        """The errors of a commit. With an old member epoch only partitions that the member has owned since then are accepted."""
        error = self.epoch_error(event.member_id, event.generation, event.instance_id)
        at = self.current_assignments.get(event.member_id, MemberAssignment())
        if error != ErrorCode.STALE_MEMBER_EPOCH or event.generation > at.epoch:
            return Completed(error)
        may = {
            (name, partition)
            for name, partition in event.offsets
            if (found := self.topics.topic_named(name)) is not None
            and at.may_commit(TopicPartition(found[0], partition), event.generation)
        }
        if not may:
            return Completed(error)
        return Completed(
            ErrorCode.NONE, {place: ErrorCode.STALE_MEMBER_EPOCH for place in event.offsets if place not in may}
        )

    # -- checks --------------------------------------------------------------------------------------------------------------
    def validate(self) -> None:
        TargetAssignmentBuilder.validate(self)
        assert self.members.keys() <= self.sessions.keys(), f"{self.group_id}: a member without a session"

    def describe(self) -> dict[str, object]:
        return {
            "group": self.group_id,
            "state": self.state.value,
            "epoch": self.epoch,
            "target_epoch": self.target_epoch,
            "members": sorted(self.members),
            "offsets": len(self.commits.offsets),
        }


def with_error(response: object, error: int) -> ConsumerHeartbeatReply | Joined | Synced | Completed:
    """The error response in place of `response`."""
    match response:
        case ConsumerHeartbeatReply():
            return ConsumerHeartbeatReply(error, member_id=response.member_id)
        case Joined():
            return Joined(error, member_id=response.member_id)
        case Synced():
            return Synced(error)
        case _:
            return Completed(error)
