"""One consumer group, the classic protocol: members and generations. A sans-IO core.

Laws: a partition has at most one owner per generation (only the leader's assignment of this generation is handed out); nothing is
answered as committed before it is persisted; whoever speaks for an older generation is told so. Called by `groups`. Must not come
in: clocks, random numbers (ids are drawn outside), the wire.

| state               | join            | sync             | heartbeat              | leaves when                       |
|---------------------|-----------------|------------------|------------------------|-----------------------------------|
| Empty               | Preparing       | UNKNOWN_MEMBER   | UNKNOWN_MEMBER         | somebody joins                    |
| PreparingRebalance  | waits           | REBALANCE        | REBALANCE              | all have joined, or time is up    |
| CompletingRebalance | Preparing       | waits for leader | ok                     | the leader's assignment is stored |
| Stable              | Preparing       | the assignment   | ok                     | somebody joins, leaves or expires |
| Dead                | COORDINATOR_NOT_AVAILABLE everywhere                                                             |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.events import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Answered,
    Commit,
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
from brokerd.coordinator.offsets import Commits
from brokerd.coordinator.seats import Seats


@dataclass(slots=True)
class Group(Seats):
    commits: Commits = field(default_factory=Commits)
    empty_since_wall_ms: int = 0
    rebalance_deadline_ms: int = 0
    rebalance_not_before_ms: int = 0
    newcomers: bool = False
    """Others have joined while a new group's first assignment was waited for: it waits as long again, within the rebalance timeout."""
    _storing: tuple[int, int, Mapping[str, bytes]] | None = None
    """(number, generation, assignments) of a group record under way."""

    # -- handling ------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Join():
                return self._join(event, now)
            case Sync():
                return self._sync(event, now)
            case Heartbeat():
                return [Reply(event.token, Answered(self._heartbeat(event, now)))]
            case Leave():
                return self._leave(event, now)
            case Commit():
                return self._commit(event, now)
            case TransactionalCommit():
                return self._commit_in_transaction(event, now)
            case Persisted():
                return self._persisted(event, now)
            case PersistFailed():
                return self._persist_failed(event, now)
            case Tick():
                return self._tick(now)

    def deadline_ms(self) -> int | None:
        """When `Tick` may have something to do (mono ms)."""
        times = [m.deadline_ms for m in self.members.values() if m.join is None]
        times += self.promised.values()
        if self.state is State.PREPARING:
            times.append(self.rebalance_deadline_ms)
            times.append(self.rebalance_not_before_ms)
        return min(times) if times else None

    # -- joining -------------------------------------------------------------------------------------------------------
    def _join(self, e: Join, now: Now) -> list[Effect]:
        def no(error: int, member_id: str = "") -> list[Effect]:
            return [Reply(e.token, Joined(error, member_id=member_id or e.member_id))]

        if self.state is State.DEAD:
            return no(COORDINATOR_NOT_AVAILABLE)
        if not self._fits(e):
            return no(INCONSISTENT_GROUP_PROTOCOL)
        if e.instance_id is not None and e.instance_id in self.static:
            return self._join_static(e, now)
        member = self.members.get(e.member_id)
        if e.member_id and member is None and e.member_id not in self.promised:
            return no(UNKNOWN_MEMBER_ID)
        if member is None:
            if len(self.members) >= self.size_max:
                return no(GROUP_MAX_SIZE_REACHED)
            if not e.member_id and e.id_first and e.instance_id is None:
                self.promised[e.drawn_id] = now.mono_ms + e.session_ms
                return no(MEMBER_ID_REQUIRED, e.drawn_id)
            self.newcomers |= self.state is State.PREPARING and now.mono_ms < self.rebalance_not_before_ms
            member = self._add(e.member_id or e.drawn_id, e)
            return self._rejoin(member, e, now)
        if member.instance_id is not None and e.instance_id != member.instance_id:
            return no(FENCED_INSTANCE_ID)
        same = member.protocols == e.protocols
        if self.state is State.COMPLETING and same:
            # It has not seen the answer to its last join: give it again.
            self._take(member, e, now)
            return [Reply(e.token, self._joined(member))]
        if self.state is State.STABLE and same and member.member_id != self.leader:
            self._take(member, e, now)
            return [Reply(e.token, self._joined(member))]
        return self._rejoin(member, e, now)

    def _join_static(self, e: Join, now: Now) -> list[Effect]:
        assert e.instance_id is not None
        old = self.members[self.static[e.instance_id]]
        if e.member_id and e.member_id != old.member_id:
            return [Reply(e.token, Joined(FENCED_INSTANCE_ID, member_id=e.member_id))]
        if e.member_id:
            if self.state is State.STABLE and old.protocols == e.protocols and old.member_id != self.leader:
                self._take(old, e, now)
                return [Reply(e.token, self._joined(old))]
            return self._rejoin(old, e, now)
        # The same instance, started again: it takes its seat under a new id and the old id is fenced.
        effects: list[Effect] = []
        if old.join is not None:
            effects.append(Reply(old.join.token, Joined(FENCED_INSTANCE_ID, member_id=old.member_id)))
        if old.sync is not None:
            effects.append(Reply(old.sync, Synced(FENCED_INSTANCE_ID)))
        was_leader = self.leader == old.member_id
        del self.members[old.member_id]
        member = self._add(e.drawn_id, e)
        member.assignment = old.assignment
        if was_leader:
            self.leader = member.member_id
        if self.state is State.STABLE and old.protocols == e.protocols and not was_leader:
            self._take(member, e, now)
            return [*effects, Reply(e.token, self._joined(member))]
        return [*effects, *self._rejoin(member, e, now)]

    def _rejoin(self, member: Member, e: Join, now: Now) -> list[Effect]:
        self._take(member, e, now)
        self.protocol_type = e.protocol_type
        effects: list[Effect] = []
        if member.join is not None:
            effects.append(Reply(member.join.token, Joined(REBALANCE_IN_PROGRESS, member_id=member.member_id)))
        member.join = e
        if self.leader is None:
            self.leader = member.member_id
        first = self.state is State.EMPTY
        effects += self._prepare(now)
        if first:
            self.rebalance_not_before_ms = now.mono_ms + self.initial_delay_ms
        return [*effects, *self._try_complete_join(now)]

    def _prepare(self, now: Now) -> list[Effect]:
        """Begin a rebalance, unless one is under way."""
        if self.state is State.PREPARING:
            return []
        effects: list[Effect] = []
        for m in self.members.values():
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(REBALANCE_IN_PROGRESS)))
                m.sync = None
        self._storing = None
        self.state, self.newcomers = State.PREPARING, False
        self.rebalance_not_before_ms = now.mono_ms
        self.rebalance_deadline_ms = now.mono_ms + max((m.rebalance_ms for m in self.members.values()), default=0)
        return effects

    def begin_anew(self, now: Now) -> None:
        """It was made of members that are all to join, and have not been told."""
        self.protocol, self.leader = self._vote(), next(iter(self.members))
        self._prepare(now)

    def _try_complete_join(self, now: Now) -> list[Effect]:
        if self.state is not State.PREPARING or now.mono_ms < self.rebalance_not_before_ms:
            return []
        if self.newcomers and now.mono_ms < self.rebalance_deadline_ms:
            self.newcomers = False
            self.rebalance_not_before_ms = min(now.mono_ms + self.initial_delay_ms, self.rebalance_deadline_ms)
            return []
        absent = [m for m in self.members.values() if m.join is None]
        if absent and now.mono_ms < self.rebalance_deadline_ms:
            return []
        for m in absent:
            # Time is up: whoever did not come again is out. A static member keeps its seat until its session ends.
            if m.instance_id is None or now.mono_ms >= m.deadline_ms:
                self._remove(m)
        if not self.members:
            return self._become_empty(now)
        self.generation += 1
        self.protocol = self._vote()
        if self.leader not in self.members or self.members[self.leader].join is None:
            self.leader = next((m.member_id for m in self.members.values() if m.join is not None), None)
            if self.leader is None:
                return []
        self.state = State.COMPLETING
        effects: list[Effect] = []
        for m in self.members.values():
            m.deadline_ms = now.mono_ms + m.session_ms
            m.brought = -1
            if m.join is not None:
                effects.append(Reply(m.join.token, self._joined(m)))
                m.join = None
        return effects

    # -- syncing -------------------------------------------------------------------------------------------------------
    def _sync(self, e: Sync, now: Now) -> list[Effect]:
        error = self._known(e.member_id, e.instance_id, e.generation)
        if not error and (
            (e.protocol_type is not None and e.protocol_type != self.protocol_type)
            or (e.protocol is not None and e.protocol != self.protocol)
        ):
            error = INCONSISTENT_GROUP_PROTOCOL
        if not error and self.state is State.PREPARING:
            error = REBALANCE_IN_PROGRESS
        if error:
            return [Reply(e.token, Synced(error))]
        member = self.members[e.member_id]
        member.deadline_ms = now.mono_ms + member.session_ms
        if self.state is State.STABLE:
            return [Reply(e.token, Synced(NONE, self.protocol_type, self.protocol, member.assignment))]
        effects: list[Effect] = []
        if member.sync is not None:
            effects.append(Reply(member.sync, Synced(REBALANCE_IN_PROGRESS)))
        member.sync = e.token
        if e.member_id == self.leader and self._storing is None:
            assignments = {m: bytes(e.assignments.get(m, b"")) for m in self.members}
            number = self.commits.next_number()
            self._storing = (number, self.generation, assignments)
            effects.append(PersistGroup(number, assignments))
        return effects

    # -- staying, leaving ------------------------------------------------------------------------------------------------
    def _heartbeat(self, e: Heartbeat, now: Now) -> int:
        error = self._known(e.member_id, e.instance_id, e.generation)
        if error:
            return error
        member = self.members[e.member_id]
        member.deadline_ms = now.mono_ms + member.session_ms
        return REBALANCE_IN_PROGRESS if self.state is State.PREPARING else NONE

    def _leave(self, e: Leave, now: Now) -> list[Effect]:
        errors = []
        effects: list[Effect] = []
        gone = False
        for member_id, instance_id in e.members:
            seat = self.static.get(instance_id) if instance_id is not None else member_id
            if instance_id is not None and seat is not None and member_id and seat != member_id:
                errors.append(FENCED_INSTANCE_ID)
                continue
            if seat in self.promised:
                del self.promised[seat]
                errors.append(NONE)
                continue
            member = self.members.get(seat or "")
            if member is None:
                errors.append(UNKNOWN_MEMBER_ID)
                continue
            errors.append(NONE)
            effects += self._remove(member)
            gone = True
        effects.append(Reply(e.token, Left(tuple(errors))))
        return [*effects, *(self._after_loss(now) if gone else [])]

    def _remove(self, member: Member) -> list[Effect]:
        del self.members[member.member_id]
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        effects: list[Effect] = []
        if member.join is not None:
            effects.append(Reply(member.join.token, Joined(UNKNOWN_MEMBER_ID, member_id=member.member_id)))
        if member.sync is not None:
            effects.append(Reply(member.sync, Synced(UNKNOWN_MEMBER_ID)))
        return effects

    def _after_loss(self, now: Now) -> list[Effect]:
        if not self.members and self.state is not State.PREPARING:
            return [*self._prepare(now), *self._become_empty(now)]
        return [*self._prepare(now), *self._try_complete_join(now)]

    def _become_empty(self, now: Now) -> list[Effect]:
        self.state, self.leader, self.protocol = State.EMPTY, None, None
        self.generation += 1
        self.empty_since_wall_ms = now.wall_ms
        return [PersistGroup(self.commits.next_number(), {})]

    def _tick(self, now: Now) -> list[Effect]:
        for drawn in [d for d, at in self.promised.items() if at <= now.mono_ms]:
            del self.promised[drawn]
        # Whoever waits in a join is alive as long as its request is.
        late = [m for m in self.members.values() if m.join is None and m.deadline_ms <= now.mono_ms]
        effects: list[Effect] = []
        for m in late:
            effects += self._remove(m)
        if late:
            return [*effects, *self._after_loss(now)]
        return self._try_complete_join(now)

    # -- offsets ---------------------------------------------------------------------------------------------------------
    def _commit(self, e: Commit, now: Now) -> list[Effect]:
        error = NONE
        if e.generation < 0 and not e.member_id:
            # A reader without membership: allowed while nobody is a member.
            if self.members:
                error = UNKNOWN_MEMBER_ID
        else:
            error = self._known(e.member_id, e.instance_id, e.generation)
            if not error and self.state is State.COMPLETING:
                error = REBALANCE_IN_PROGRESS
            if not error:
                member = self.members[e.member_id]
                member.deadline_ms = now.mono_ms + member.session_ms
        if error or not e.offsets:
            return [Reply(e.token, Answered(error))]
        if not self.members and not self.empty_since_wall_ms:
            self.empty_since_wall_ms = now.wall_ms
        return self.commits.commit(e)

    def _commit_in_transaction(self, e: TransactionalCommit, now: Now) -> list[Effect]:
        """Whoever names no membership (clients before KIP-447) is let in: its transaction fences it."""
        error = NONE
        if e.generation >= 0 or e.member_id or e.instance_id is not None:
            error = self._known(e.member_id, e.instance_id, e.generation)
        if error or not e.offsets:
            return [Reply(e.token, Answered(error))]
        if e.member_id in self.members:
            self.members[e.member_id].deadline_ms = now.mono_ms + self.members[e.member_id].session_ms
        if not self.members and not self.empty_since_wall_ms:
            self.empty_since_wall_ms = now.wall_ms
        return self.commits.commit_in_transaction(e)

    def _persisted(self, e: Persisted, now: Now) -> list[Effect]:
        committed = self.commits.persisted(e)
        if committed is not None:
            return committed
        if self._storing is None or self._storing[0] != e.number or self.state is not State.COMPLETING:
            return []
        _, _, assignments = self._storing
        self._storing = None
        self.state = State.STABLE
        effects: list[Effect] = []
        for m in self.members.values():
            m.assignment = assignments.get(m.member_id, b"")
            m.deadline_ms = max(m.deadline_ms, now.mono_ms + m.session_ms)
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(NONE, self.protocol_type, self.protocol, m.assignment)))
                m.sync = None
        return effects

    def _persist_failed(self, e: PersistFailed, now: Now) -> list[Effect]:
        refused = self.commits.failed(e)
        if refused is not None:
            return refused
        if self._storing is None or self._storing[0] != e.number:
            return []
        self._storing = None
        effects: list[Effect] = []
        for m in (
            self.members.values()
        ):  # what each was given last it may have still: it is forgotten with the next assignment
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(e.error)))
                m.sync = None
        return [*effects, *self._prepare(now)]

    def unload(self) -> list[Effect]:
        """The partition is led elsewhere from now on: everybody who waits is told."""
        effects: list[Effect] = []
        for m in self.members.values():
            if m.join is not None:
                effects.append(Reply(m.join.token, Joined(NOT_COORDINATOR, member_id=m.member_id)))
            if m.sync is not None:
                effects.append(Reply(m.sync, Synced(NOT_COORDINATOR)))
            m.join = m.sync = None
        effects += self.commits.unload()
        self.state = State.DEAD
        return effects

    def listen_anew(self, now: Now) -> None:
        """Nobody could be heard until now: everybody has a session's time to say that it is there."""
        for m in self.members.values():
            m.deadline_ms = max(m.deadline_ms, now.mono_ms + m.session_ms)

    def end(self) -> None:
        """It was deleted."""
        self.state = State.DEAD

    def validate(self) -> None:
        assert self.leader is None or self.leader in self.members, f"{self.group_id}: leader {self.leader} is no member"
        assert set(self.static.values()) <= set(self.members), f"{self.group_id}: a static seat without its member"
        if self.state is State.EMPTY:
            assert not self.members, f"{self.group_id}: empty with members"
        if self.state in (State.STABLE, State.COMPLETING):
            assert self.members and self.protocol, f"{self.group_id}: {self.state.value} without members or protocol"

    def describe(self) -> dict[str, Any]:
        return {
            "group": self.group_id, "state": self.state.value, "generation": self.generation, "leader": self.leader,
            "members": sorted(self.members), "offsets": len(self.commits.offsets),
        }  # fmt: skip
