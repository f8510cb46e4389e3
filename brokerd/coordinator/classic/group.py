"""A group of the classic protocol: members, generations and rebalances (Kafka: ClassicGroup). Pure state machine without clock and random numbers.

Invariants: a partition has at most one owner per generation, because members get only the leader's assignment of the current generation.
A commit is confirmed only after it is persisted. A request with an older generation gets ILLEGAL_GENERATION.

| state               | join            | sync             | heartbeat              | next state when                   |
|---------------------|-----------------|------------------|------------------------|-----------------------------------|
| Empty               | Preparing       | UNKNOWN_MEMBER   | UNKNOWN_MEMBER         | a member joins                    |
| PreparingRebalance  | waits           | REBALANCE        | REBALANCE              | all have joined, or time is up    |
| CompletingRebalance | Preparing       | waits for leader | ok                     | the leader's assignment is stored |
| Stable              | Preparing       | the assignment   | ok                     | a member joins, leaves or expires |
| Dead                | COORDINATOR_NOT_AVAILABLE everywhere                                                             |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerd.cluster.model import Now
from brokerd.cluster.routes import ROUTE_GROUP_PREFIX
from brokerd.coordinator.classic.events import (
    Commit,
    Completed,
    Effect,
    Event,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Member,
    Persisted,
    PersistFailed,
    PersistGroup,
    Reply,
    State,
    Sync,
    Synced,
    Tick,
    TransactionalCommit,
)
from brokerd.coordinator.classic.membership import GroupMembership
from brokerd.coordinator.classic.offsets import NO_ERRORS, GroupOffsets
from brokerd.wire.errors import ErrorCode


@dataclass(slots=True)
class Group(GroupMembership):
    commits: GroupOffsets = field(default_factory=GroupOffsets)
    empty_since_wall_ms: int = 0
    rebalance_deadline_ms: int = 0
    rebalance_not_before_ms: int = 0
    new_member_added: bool = False
    """A member joined during the initial rebalance delay, which is then extended within the rebalance timeout."""
    _pending_assignment: tuple[int, int, Mapping[str, bytes]] | None = None
    """(number, generation, assignments) of the group record that is being written."""

    # -- handling ------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Join():
                return self._join(event, now)
            case Sync():
                return self._sync(event, now)
            case Heartbeat():
                return [Reply(event.token, Completed(self._heartbeat(event, now)))]
            case Leave():
                return self._leave(event, now)
            case Commit():
                return self._commit(event, now)
            case TransactionalCommit():
                return self._commit_in_transaction(event, now)
            case Persisted():
                return self._on_persisted(event, now)
            case PersistFailed():
                return self._persist_failed(event, now)
            case Tick():
                return self._tick(now)

    def deadline_ms(self) -> int | None:
        """Return the earliest time at which a timer may expire (monotonic ms)."""
        times = [m.deadline_ms for m in self.members.values() if m.join is None]
        times += self.pending_members.values()
        if self.state is State.PREPARING:
            times.append(self.rebalance_deadline_ms)
            times.append(self.rebalance_not_before_ms)
        return min(times) if times else None

    # -- joining -------------------------------------------------------------------------------------------------------
    def _join(self, event: Join, now: Now) -> list[Effect]:
        def no(error: int, member_id: str = "") -> list[Effect]:
            return [Reply(event.token, Joined(error, member_id=member_id or event.member_id))]

        if self.state is State.DEAD:
            return no(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._supports_group_protocols(event):
            return no(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if event.instance_id in self.static:
            return self._join_static(event, now)
        member = self.members.get(event.member_id)
        if event.member_id and member is None and event.member_id not in self.pending_members:
            return no(ErrorCode.UNKNOWN_MEMBER_ID)
        if member is None:
            if len(self.members) >= self.size_max:
                return no(ErrorCode.GROUP_MAX_SIZE_REACHED)
            if not event.member_id and event.require_known_member_id and event.instance_id is None:
                self.pending_members[event.new_member_id] = now.mono_ms + event.session_ms
                return no(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)
            self.new_member_added |= now.mono_ms < self.rebalance_not_before_ms
            member = self._add(event.member_id or event.new_member_id, event)
            return self._rejoin(member, event, now)
        if member.instance_id is not None:  # a member with its own instance id has joined above
            return no(ErrorCode.FENCED_INSTANCE_ID)
        return self._join_again(member, event, now)

    def _join_again(self, member: Member, e: Join, now: Now) -> list[Effect]:
        """A member joins with its member id. The response to its last JoinGroup may be lost: it is sent again if nothing has changed. The leader of
        a stable group starts a rebalance, because it may have new metadata of the topics."""
        may_be_lost = self.state is State.COMPLETING or (self.state is State.STABLE and member.member_id != self.leader)
        if may_be_lost and member.protocols == e.protocols:
            self._take(member, e, now)
            return [Reply(e.token, self._join_response(member))]
        return self._rejoin(member, e, now)

    def _join_static(self, event: Join, now: Now) -> list[Effect]:
        assert event.instance_id is not None
        old = self.members[self.static[event.instance_id]]
        if event.member_id and event.member_id != old.member_id:
            return [Reply(event.token, Joined(ErrorCode.FENCED_INSTANCE_ID, member_id=event.member_id))]
        if event.member_id:
            return self._join_again(old, event, now)
        # The static member restarted: the new member id replaces the old one, which is fenced.
        effects: list[Effect] = []
        if old.join is not None:
            effects.append(Reply(old.join.token, Joined(ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id)))
        if old.sync is not None:
            effects.append(Reply(old.sync, Synced(ErrorCode.FENCED_INSTANCE_ID)))
        was_leader = self.leader == old.member_id
        del self.members[old.member_id]
        member = self._add(event.new_member_id, event)
        member.assignment = old.assignment
        if was_leader:
            self.leader = member.member_id
        if self.state is State.STABLE and old.protocols == event.protocols and not was_leader:
            self._take(member, event, now)
            return [*effects, Reply(event.token, self._join_response(member))]
        return [*effects, *self._rejoin(member, event, now)]

    def _rejoin(self, member: Member, event: Join, now: Now) -> list[Effect]:
        self._take(member, event, now)
        self.protocol_type = event.protocol_type
        effects: list[Effect] = []
        if member.join is not None:
            effects.append(
                Reply(member.join.token, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
            )
        member.join = event
        if self.leader is None:
            self.leader = member.member_id
        first = self.state is State.EMPTY
        effects += self._prepare_rebalance(now)
        if first:
            self.rebalance_not_before_ms = now.mono_ms + self.initial_delay_ms
        return [*effects, *self._try_complete_join(now)]

    def _prepare_rebalance(self, now: Now) -> list[Effect]:
        """Start a rebalance, unless one is in progress."""
        if self.state is State.PREPARING:
            return []
        effects: list[Effect] = []
        for m in self.members.values():
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(ErrorCode.REBALANCE_IN_PROGRESS)))
                m.sync = None
        self._pending_assignment = None
        self.state, self.new_member_added = State.PREPARING, False
        self.rebalance_not_before_ms = now.mono_ms
        self.rebalance_deadline_ms = now.mono_ms + max((m.rebalance_ms for m in self.members.values()), default=0)
        return effects

    def start_rebalance(self, now: Now) -> None:
        """Start the rebalance of a group that was converted from the consumer protocol: every member must join again."""
        self.protocol, self.leader = self._select_protocol(), next(iter(self.members))
        self._prepare_rebalance(now)

    def _try_complete_join(self, now: Now) -> list[Effect]:
        if self.state is not State.PREPARING or now.mono_ms < self.rebalance_not_before_ms:
            return []
        if self.new_member_added and now.mono_ms < self.rebalance_deadline_ms:
            self.new_member_added = False
            self.rebalance_not_before_ms = min(now.mono_ms + self.initial_delay_ms, self.rebalance_deadline_ms)
            return []
        absent = [m for m in self.members.values() if m.join is None]
        if absent and now.mono_ms < self.rebalance_deadline_ms:
            return []
        for member in absent:
            # The rebalance timeout has passed: members that did not rejoin are removed. A static member stays until its session ends.
            if member.instance_id is None or now.mono_ms >= member.deadline_ms:
                self._remove(member)
        if not self.members:
            return self._become_empty(now)
        joined = [m.member_id for m in self.members.values() if m.join is not None]
        if not joined:
            return []  # only static members that have not rejoined: the next member that joins completes the rebalance
        if self.leader not in joined:
            self.leader = joined[0]
        self.generation += 1
        self.protocol = self._select_protocol()
        self.state = State.COMPLETING
        effects: list[Effect] = []
        for member in self.members.values():
            member.deadline_ms = now.mono_ms + member.session_ms
            member.consumer_epoch = -1
            if member.join is not None:
                effects.append(Reply(member.join.token, self._join_response(member)))
                member.join = None
        return effects

    # -- syncing -------------------------------------------------------------------------------------------------------
    def _sync(self, event: Sync, now: Now) -> list[Effect]:
        error = self._member_error(event.member_id, event.instance_id, event.generation)
        if not error and (
            (event.protocol_type is not None and event.protocol_type != self.protocol_type)
            or (event.protocol is not None and event.protocol != self.protocol)
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not error and self.state is State.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            return [Reply(event.token, Synced(error))]
        member = self.members[event.member_id]
        member.deadline_ms = now.mono_ms + member.session_ms
        if self.state is State.STABLE:
            return [Reply(event.token, Synced(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment))]
        effects: list[Effect] = []
        if member.sync is not None:
            effects.append(Reply(member.sync, Synced(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.sync = event.token
        if event.member_id == self.leader and self._pending_assignment is None:
            assignments = {m: bytes(event.assignments.get(m, b"")) for m in self.members}
            number = self.commits.next_number()
            self._pending_assignment = (number, self.generation, assignments)
            effects.append(PersistGroup(number, assignments))
        return effects

    # -- staying, leaving ------------------------------------------------------------------------------------------------
    def _heartbeat(self, e: Heartbeat, now: Now) -> int:
        error = self._member_error(e.member_id, e.instance_id, e.generation)
        if error:
            return error
        member = self.members[e.member_id]
        member.deadline_ms = now.mono_ms + member.session_ms
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else ErrorCode.NONE

    def _leave(self, event: Leave, now: Now) -> list[Effect]:
        errors = []
        effects: list[Effect] = []
        gone = False
        for member_id, instance_id in event.members:
            current_id = self.static.get(instance_id, "") if instance_id is not None else member_id
            if current_id and member_id and current_id != member_id:
                errors.append(ErrorCode.FENCED_INSTANCE_ID)
                continue
            if current_id in self.pending_members:
                del self.pending_members[current_id]
                errors.append(ErrorCode.NONE)
                continue
            member = self.members.get(current_id)
            if member is None:
                errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
                continue
            errors.append(ErrorCode.NONE)
            effects += self._remove(member)
            gone = True
        effects.append(Reply(event.token, Left(tuple(errors))))
        return [*effects, *(self._rebalance_after_removal(now) if gone else [])]

    def _remove(self, member: Member) -> list[Effect]:
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        effects: list[Effect] = []
        if member.join is not None:
            effects.append(Reply(member.join.token, Joined(ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.member_id)))
        if member.sync is not None:
            effects.append(Reply(member.sync, Synced(ErrorCode.UNKNOWN_MEMBER_ID)))
        return effects

    def _rebalance_after_removal(self, now: Now) -> list[Effect]:
        return [*self._prepare_rebalance(now), *self._try_complete_join(now)]

    def _become_empty(self, now: Now) -> list[Effect]:
        self.state, self.leader, self.protocol = State.EMPTY, None, None
        self.generation += 1
        self.empty_since_wall_ms = now.wall_ms
        return [PersistGroup(self.commits.next_number(), {})]

    def _tick(self, now: Now) -> list[Effect]:
        for expired_id in [d for d, at in self.pending_members.items() if at <= now.mono_ms]:
            del self.pending_members[expired_id]
        # A member with a waiting JoinGroup stays in the group while the request is open.
        late = [m for m in self.members.values() if m.join is None and m.deadline_ms <= now.mono_ms]
        effects: list[Effect] = []
        for m in late:
            effects += self._remove(m)
        if late:
            return [*effects, *self._rebalance_after_removal(now)]
        return self._try_complete_join(now)

    # -- offsets ---------------------------------------------------------------------------------------------------------
    def _non_member_error(self, e: Commit | TransactionalCommit) -> int | None:
        """The error (0: none) of a commit without a generation to a group without members. None if the commit must come from a member."""
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE if e.generation < 0 and not self.members else None

    def _commit(self, event: Commit, now: Now) -> list[Effect]:
        error = self._non_member_error(event)
        if error is None:
            error = self._member_error(event.member_id, event.instance_id, event.generation)
            if not error and self.state is State.COMPLETING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
            if not error:
                member = self.members[event.member_id]
                member.deadline_ms = now.mono_ms + member.session_ms
        if error or not event.offsets:
            return [Reply(event.token, Completed(error))]
        if not self.members and not self.empty_since_wall_ms:
            self.empty_since_wall_ms = now.wall_ms
        rejected = (
            self.commits.fenced_offsets(event.offsets) if self.group_id.startswith(ROUTE_GROUP_PREFIX) else NO_ERRORS
        )
        if len(rejected) == len(event.offsets):
            return [Reply(event.token, Completed(ErrorCode.NONE, rejected))]
        return self.commits.commit(event, rejected)

    def _commit_in_transaction(self, event: TransactionalCommit, now: Now) -> list[Effect]:
        """Clients before KIP-447 send no member id. Their commits are accepted, because the transaction fences old producers."""
        error = self._non_member_error(event)
        named = event.generation >= 0 or event.member_id or event.instance_id is not None
        if error is None and named:
            error = self._member_error(event.member_id, event.instance_id, event.generation)
        if error or not event.offsets:
            return [Reply(event.token, Completed(error or ErrorCode.NONE))]
        if event.member_id in self.members:
            self.members[event.member_id].deadline_ms = now.mono_ms + self.members[event.member_id].session_ms
        if not self.members and not self.empty_since_wall_ms:
            self.empty_since_wall_ms = now.wall_ms
        return self.commits.commit_in_transaction(event)

    def _on_persisted(self, e: Persisted, now: Now) -> list[Effect]:
        committed = self.commits.on_persisted(e)
        if committed is not None:
            return committed
        if (
            self._pending_assignment is None
            or self._pending_assignment[0] != e.number
            or self.state is not State.COMPLETING
        ):
            return []
        _, _, assignments = self._pending_assignment
        self._pending_assignment = None
        self.state = State.STABLE
        effects: list[Effect] = []
        for m in self.members.values():
            m.assignment = assignments.get(m.member_id, b"")
            m.deadline_ms = max(m.deadline_ms, now.mono_ms + m.session_ms)
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(ErrorCode.NONE, self.protocol_type, self.protocol, m.assignment)))
                m.sync = None
        return effects

    def _persist_failed(self, event: PersistFailed, now: Now) -> list[Effect]:
        rejected = self.commits.on_persist_failed(event)
        if rejected is not None:
            return rejected
        if self._pending_assignment is None or self._pending_assignment[0] != event.number:
            return []
        self._pending_assignment = None
        effects: list[Effect] = []
        # Stored assignments stay until the next assignment, because the members may still own these partitions.
        for m in self.members.values():
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(event.error)))
                m.sync = None
        return [*effects, *self._prepare_rebalance(now)]

    def unload(self) -> list[Effect]:
        """Answer all waiting requests: another broker leads the partition."""
        effects: list[Effect] = []
        for m in self.members.values():
            if m.join is not None:
                effects.append(Reply(m.join.token, Joined(ErrorCode.NOT_COORDINATOR, member_id=m.member_id)))
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(ErrorCode.NOT_COORDINATOR)))
            m.join = m.sync = None
        effects += self.commits.unload()
        self.state = State.DEAD
        return effects

    def reset_session_timeouts(self, now: Now) -> None:
        """Start every session again after a time without heartbeats."""
        for m in self.members.values():
            m.deadline_ms = max(m.deadline_ms, now.mono_ms + m.session_ms)

    def end(self) -> None:
        """Mark the deleted group as dead."""
        self.state = State.DEAD

    def validate(self) -> None:
        assert self.leader is None or self.leader in self.members, (
            f"{self.group_id}: leader {self.leader} is not a member"
        )
        assert set(self.static.values()) <= set(self.members), f"{self.group_id}: a static member without a member"
        if self.state is State.EMPTY:
            assert not self.members, f"{self.group_id}: empty with members"
        if self.state in (State.STABLE, State.COMPLETING):
            assert self.members and self.protocol, f"{self.group_id}: {self.state.value} without members or protocol"

    def describe(self) -> dict[str, object]:
        return {
            "group": self.group_id,
            "state": self.state.value,
            "generation": self.generation,
            "leader": self.leader,
            "members": sorted(self.members),
            "offsets": len(self.commits.offsets),
        }
