"""One consumer group of the new protocol (KIP-848): its members are told what they have, and beat. A sans-IO core.

Laws: nobody holds a partition that another holds; an answer leaves when all that it rests on is replicated; whoever speaks for another
epoch is told so. Called by `groups`. Must not come in: clocks, random numbers, the wire. Beside it: `consumer_facts` (what the group is),
`assignors` (who is to have what), `reconciliation` (how a member gets there).

| heartbeat says          | and the member                  | then                                                             |
|-------------------------|---------------------------------|------------------------------------------------------------------|
| 0                       | is new                          | it joins                                                         |
| 0                       | is known                        | it has lost its memory: it is told all                           |
| 0, an instance id       | has left with -2, other id      | it takes the seat and what lies there                            |
| 0, an instance id       | lives, other id                 | UNRELEASED_INSTANCE_ID                                           |
| its epoch               |                                 | it stays, and takes its next step                                |
| its last epoch, owning  | has not heard of the newer one  | it stays, and is told again                                      |
| any other               |                                 | FENCED_MEMBER_EPOCH                                              |
| -1                      |                                 | it is out                                                        |
| -2, an instance id      |                                 | it is away; its seat waits until the session ends                |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator import events
from brokerd.coordinator.assignors import NOTHING, Share
from brokerd.coordinator.consumer_events import (
    FENCED_MEMBER_EPOCH,
    INVALID_REGULAR_EXPRESSION,
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    STALE_MEMBER_EPOCH,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
    Beat,
    Beaten,
    Fact,
    GroupState,
    PersistChanges,
    Profile,
    Resolved,
)
from brokerd.coordinator.consumer_shares import Shares
from brokerd.coordinator.events import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    Answered,
    Joined,
    Reply,
    Synced,
)
from brokerd.coordinator.offsets import Commits
from brokerd.coordinator.patterns import Pattern, PatternError
from brokerd.coordinator.reconciliation import LEFT_FOR_A_WHILE, MemberState, Standing, reconciled

TRY_AGAIN_MS = 1_000
"""Until somebody whose time is up is put out again, where the log has refused it."""

Event = Beat | events.Commit | events.TransactionalCommit | events.Persisted | events.PersistFailed | events.Tick
Effect = events.Effect | PersistChanges


@dataclass(slots=True, kw_only=True)
class ConsumerGroup(Shares):
    commits: Commits = field(default_factory=Commits)
    sessions: dict[str, int] = field(default_factory=dict)
    """When a member counts as gone unless it beats (mono ms)."""
    revocations: dict[str, tuple[Share, int]] = field(default_factory=dict)
    """What a member is to give up, and by when (mono ms)."""
    dead: bool = False
    _assigned_ms: int | None = None
    """When shares were last reckoned here (mono ms)."""
    _due: int | None = None
    """No timer ends before (mono ms)."""
    _waiting: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    """Answers by the number of the write they wait for."""

    # -- handling ------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Beat():
                self.begin(now.wall_ms)
                answer = self._beat(event, now)
                assert not answer.error or not self.changes, f"{self.group_id}: refused, yet changed"
                return self._settle((event.token, answer))
            case events.Commit():
                return self._commit(event, now)
            case events.TransactionalCommit():
                return self._commit_in_transaction(event, now)
            case events.Persisted():
                committed = self.commits.persisted(event)
                return [*committed] if committed is not None else self._persisted(event.number)
            case events.PersistFailed():
                refused = self.commits.failed(event)
                return [*refused] if refused is not None else self._refused(event)
            case events.Tick():
                return self._tick(now)

    def deadline_ms(self) -> int | None:
        """When `Tick` may have something to do (mono ms)."""
        return self._due

    @property
    def state(self) -> GroupState:
        if self.dead:
            return GroupState.DEAD
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = all(
            s.state is MemberState.STABLE and s.epoch in (self.target_epoch, LEFT_FOR_A_WHILE)
            for s in self.standings.values()
        )
        return GroupState.STABLE if settled else GroupState.RECONCILING

    # -- beating -------------------------------------------------------------------------------------------------------
    def _beat(self, e: Beat, now: Now) -> Beaten:
        if self.dead:
            return Beaten(COORDINATOR_NOT_AVAILABLE)
        if e.assignor is not None and e.assignor not in self.terms.assignors:
            known = ", ".join(self.terms.assignors)
            return Beaten(UNSUPPORTED_ASSIGNOR, f"assignor {e.assignor!r} is not known here; there are {known}")
        refused = self._misfit(e)
        if refused is not None:
            return refused
        if e.pattern and e.pattern not in self.patterns:
            try:
                found = Pattern(e.pattern).among(filter(e.sees, self.topics.names()))
            except PatternError as problem:
                return Beaten(INVALID_REGULAR_EXPRESSION, f"the regular expression cannot be used: {problem}")
            self.change(Fact.PATTERN, e.pattern, Resolved(found, self.topics.version, now.wall_ms))
        if e.epoch in (LEAVES, LEAVES_FOR_A_WHILE):
            return self._leave(e)
        before = self.standings.get(e.member_id, Standing())
        if e.instance_id is not None and e.member_id not in self.members and e.instance_id in self.static:
            before = self._take_seat(self.static[e.instance_id], e.member_id)
        self._describe_member(e, now)
        pause_ms = 0
        if self.target_epoch < self.epoch:
            pause_ms = self._pause(e, now)
            if pause_ms:
                # KIP-1263: others may come meanwhile. It has nothing yet, in the epoch that the others have.
                self.change(Fact.TARGET, e.member_id, self.targets.get(e.member_id, NOTHING))
            else:
                self._assign()
                self._assigned_ms = now.mono_ms
        after = reconciled(
            self.standings[e.member_id], self.targets.get(e.member_id, NOTHING), self.target_epoch, e.owned,
            lambda tp: self.holders.get(tp, e.member_id) == e.member_id,
        )  # fmt: skip
        self.change(Fact.STANDING, e.member_id, after)
        self._wind(e.member_id, now)
        whole = e.epoch == JOINS or (
            e.rebalance_ms >= 0 and (e.topics is not None or e.pattern is not None) and e.owned is not None
        )
        told = whole or after.assigned != before.assigned or e.epoch != before.epoch
        beat_ms = min(self.terms.heartbeat_ms, pause_ms or self.terms.heartbeat_ms)
        return Beaten(NONE, None, e.member_id, after.epoch, beat_ms, after.assigned if told else None)

    def _pause(self, e: Beat, now: Now) -> int:
        """How long (ms) the group waits with its next assignment. A member that speaks the classic protocol would join over and over."""
        if not self.target_epoch or e.classic is not None or self._assigned_ms is None:
            return 0
        return max(0, self._assigned_ms + self.terms.assignment_ms - now.mono_ms)

    def _misfit(self, e: Beat) -> Beaten | None:
        """Why whoever says this is not, or not any more, whom it says it is."""
        joins = e.epoch == JOINS
        if e.instance_id is not None:
            seated = self.static.get(e.instance_id)
            if seated is None and not joins:
                return Beaten(UNKNOWN_MEMBER_ID, f"no member has the instance id {e.instance_id!r}")
            if seated is not None and seated != e.member_id:
                if not joins:
                    return Beaten(
                        FENCED_INSTANCE_ID, f"the instance id {e.instance_id!r} belongs to another member now"
                    )
                # The classic protocol has no word for leaving a seat for a while: whoever comes from it, or after it, is let in.
                classic = e.classic is not None or self.members[seated].classic is not None
                if self.standings[seated].epoch != LEFT_FOR_A_WHILE and not classic:
                    return Beaten(UNRELEASED_INSTANCE_ID, f"the instance id {e.instance_id!r} is in use")
                return None
        known = e.member_id in self.members
        if not known and not joins:
            return Beaten(UNKNOWN_MEMBER_ID, f"{e.member_id!r} is no member of {self.group_id!r}")
        if known and not joins and self.members[e.member_id].classic is not None:
            return Beaten(UNKNOWN_MEMBER_ID, f"{e.member_id!r} speaks the classic protocol")
        if not known and len(self.members) >= self.terms.size_max:
            return Beaten(GROUP_MAX_SIZE_REACHED, f"the group has its {self.terms.size_max} members")
        if known and e.epoch > JOINS:
            at = self.standings[e.member_id]
            again = e.epoch == at.previous_epoch and e.owned is not None and e.owned <= at.assigned
            if e.epoch > at.epoch or (e.epoch < at.epoch and not again):
                said = f"the member epoch is {at.epoch}, not {e.epoch}: give up all partitions and join again"
                return Beaten(FENCED_MEMBER_EPOCH, said)
        return None

    def _describe_member(self, e: Beat, now: Now) -> None:
        """Take over what it says of itself; whatever changes who is to have what raises the group's epoch."""
        old = self.members.get(e.member_id)
        # What was said at this seat in the other protocol counts no more.
        kept = old if old is not None and (old.classic is None) == (e.classic is None) else None
        profile = Profile(
            e.instance_id if e.instance_id is not None or old is None else old.instance_id,
            e.rack_id if e.rack_id is not None or kept is None else kept.rack_id,
            e.client_id, e.client_host,
            e.topics if e.topics is not None else kept.topics if kept is not None else frozenset(),
            (e.pattern or None) if e.pattern is not None else kept.pattern if kept is not None else None,
            e.rebalance_ms if e.rebalance_ms >= 0 or kept is None else kept.rebalance_ms,
            e.assignor if e.assignor is not None or kept is None else kept.assignor,
            e.classic,
        )  # fmt: skip
        self.change(Fact.MEMBER, e.member_id, profile)
        anew = old is None or (old.topics, old.pattern) != (profile.topics, profile.pattern)
        anew = anew or e.member_id not in self.targets  # its coordinator died half-way through its joining
        if anew or self._seen != self.topics.version:
            self._resolve(e, now)
            self._raise_epoch(only_if_topics_changed=not anew)

    def _leave(self, e: Beat) -> Beaten:
        if e.epoch == LEAVES:
            self._remove(e.member_id)
            self._raise_epoch()
        else:
            # What it was to give up it has given up; what it has waits for it.
            at = self.standings[e.member_id]
            away = at.but(epoch=LEFT_FOR_A_WHILE, state=MemberState.STABLE, revoking=NOTHING)
            self.change(Fact.STANDING, e.member_id, away)
            self.revocations.pop(e.member_id, None)
        return Beaten(NONE, None, e.member_id, e.epoch)

    def _remove(self, member_id: str) -> None:
        for fact in (Fact.STANDING, Fact.TARGET, Fact.MEMBER):
            self.change(fact, member_id, None)

    def _take_seat(self, old_id: str, new_id: str) -> Standing:
        """The same instance, started again: what lay at its seat is its own. Nobody else's target changes by it."""
        profile, target = self.members[old_id], self.targets.get(old_id, NOTHING)
        had = self.standings[old_id].assigned
        standing = Standing(assigned=had, since=dict.fromkeys(had, self.epoch))
        for fact in (Fact.STANDING, Fact.TARGET, Fact.MEMBER):
            self.change(fact, old_id, None)
        self.change(Fact.MEMBER, new_id, profile)
        self.change(Fact.TARGET, new_id, target)
        self.change(Fact.STANDING, new_id, standing)
        return standing

    # -- the log's word ----------------------------------------------------------------------------------------------------
    def _settle(self, *answers: tuple[Any, Any]) -> list[Effect]:
        """Persist what has changed; whoever is answered waits for that, or for what is still on its way of what was changed before."""
        if self.changes:
            number = self.commits.next_number()
            self._waiting[number] = list(answers)
            # The epoch first: whatever part of the rest a successor finds, it sees that the shares are to be reckoned anew.
            return [PersistChanges(number, tuple(sorted(self.changes, key=lambda c: c.fact is not Fact.GROUP)))]
        if self._waiting:
            self._waiting[max(self._waiting)] += answers
            return []
        return [Reply(token, answer) for token, answer in answers]

    @property
    def waits(self) -> bool:
        """Somebody is answered when the log has spoken."""
        return bool(self._waiting)

    def _persisted(self, number: int) -> list[Effect]:
        """Up to this one: what stands before it in the log is replicated with it."""
        done = sorted(n for n in self._waiting if n <= number)
        return [Reply(token, answer) for n in done for token, answer in self._waiting.pop(n)]

    def _refused(self, e: events.PersistFailed) -> list[Effect]:
        """The last write was refused at once and stands nowhere: all is as before it. (Of any other the log must be asked.)"""
        answers = self._waiting.pop(e.number, None)
        if answers is None:
            return []
        self.take_back()
        self._seen = -1
        return [Reply(token, instead(answer, e.error)) for token, answer in answers]

    def unload(self) -> list[Effect]:
        """The partition is led elsewhere from now on: everybody who waits is told."""
        effects: list[Effect] = [
            Reply(token, instead(answer, NOT_COORDINATOR))
            for _, answers in sorted(self._waiting.items())
            for token, answer in answers
        ]
        self._waiting.clear()
        self.dead = True
        return [*effects, *self.commits.unload()]

    # -- time ----------------------------------------------------------------------------------------------------------------
    def listen_anew(self, now: Now) -> None:
        """All was read, or nobody could be heard until now: everybody has a session's time to say where it is now."""
        self.purge()
        for member_id in self.members:
            self._wind(member_id, now)

    def end(self) -> None:
        """It was deleted."""
        self.dead = True

    def _wind(self, member_id: str, now: Now) -> None:
        classic = self.members[member_id].classic
        ends = now.mono_ms + (self.terms.session_ms if classic is None else classic.session_ms)
        self.sessions[member_id] = ends
        at = self.standings[member_id]
        if at.state is not MemberState.UNREVOKED:
            self.revocations.pop(member_id, None)
        elif self.revocations.get(member_id, (NOTHING, 0))[0] != at.revoking:
            by = now.mono_ms + self.members[member_id].rebalance_ms
            self.revocations[member_id] = (at.revoking, by)
            ends = min(ends, by)
        self._due = ends if self._due is None else min(self._due, ends)

    def _tick(self, now: Now) -> list[Effect]:
        self.begin(now.wall_ms)
        for member_id in self._late(now):
            self.revocations.pop(member_id, None)
            if member_id in self.members:
                self.sessions[member_id] = now.mono_ms + TRY_AGAIN_MS
                self._remove(member_id)
            else:
                del self.sessions[member_id]
        if self.changes:
            self._raise_epoch()
        self._due = min(self._times(), default=None)
        return self._settle()

    def _late(self, now: Now) -> list[str]:
        """Whose time is up."""
        late = [m for m, at in self.sessions.items() if at <= now.mono_ms]
        return late + [m for m, (_, by) in self.revocations.items() if by <= now.mono_ms and m not in late]

    def _times(self) -> list[int]:
        return [*self.sessions.values(), *(by for _, by in self.revocations.values())]

    # -- offsets ---------------------------------------------------------------------------------------------------------
    def epoch_error(self, member_id: str, epoch: int, instance_id: str | None = None) -> int:
        """Whether a member of this epoch may commit and fetch offsets."""
        if self.dead:
            return COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and self.static.get(instance_id, member_id) != member_id:
            return FENCED_INSTANCE_ID
        at = self.standings.get(member_id)
        if at is None:
            return UNKNOWN_MEMBER_ID
        if epoch == at.epoch:
            return NONE
        return STALE_MEMBER_EPOCH if self.members[member_id].classic is None else ILLEGAL_GENERATION

    def _commit(self, e: events.Commit, now: Now) -> list[Effect]:
        if e.generation < 0 and not self.members:
            refused = Answered(COORDINATOR_NOT_AVAILABLE if self.dead else NONE)
            self.empty_since_wall_ms = self.empty_since_wall_ms or now.wall_ms
        else:
            refused = self._refused_offsets(e)
        if refused.error or len(refused.but) == len(e.offsets):
            return [Reply(e.token, refused)]
        return [*self.commits.commit(e, refused.but)]

    def _commit_in_transaction(self, e: events.TransactionalCommit, now: Now) -> list[Effect]:
        """Whoever names no membership (clients before KIP-447) is let in: its transaction fences it."""
        named = e.generation >= 0 or e.member_id or e.instance_id is not None
        refused = self._refused_offsets(e) if named else Answered(NONE)
        # Of epochs that are over clients know by another name here.
        error = ILLEGAL_GENERATION if refused.error == STALE_MEMBER_EPOCH else refused.error
        refused = Answered(error, dict.fromkeys(refused.but, ILLEGAL_GENERATION))
        if error or len(refused.but) == len(e.offsets):
            return [Reply(e.token, refused)]
        return [*self.commits.commit_in_transaction(e, refused.but)]

    def _refused_offsets(self, e: events.Commit | events.TransactionalCommit) -> Answered:
        """Of a member whose epoch is over those partitions that it was given since, or has no more."""
        error = self.epoch_error(e.member_id, e.generation, e.instance_id)
        at = self.standings.get(e.member_id, Standing())
        if error != STALE_MEMBER_EPOCH or e.generation > at.epoch:
            return Answered(error)
        may = {
            (name, partition)
            for name, partition in e.offsets
            if (found := self.topics.named(name)) is not None
            and at.may_commit(TopicPartition(found[0], partition), e.generation)
        }
        if not may:
            return Answered(error)
        return Answered(NONE, {place: STALE_MEMBER_EPOCH for place in e.offsets if place not in may})

    # -- looking in ----------------------------------------------------------------------------------------------------------
    def validate(self) -> None:
        Shares.validate(self)
        assert self.members.keys() <= self.sessions.keys(), (
            f"{self.group_id}: a member whose silence nobody would notice"
        )

    def describe(self) -> dict[str, Any]:
        return {
            "group": self.group_id, "state": self.state.value, "epoch": self.epoch, "target_epoch": self.target_epoch,
            "members": sorted(self.members), "offsets": len(self.commits.offsets),
        }  # fmt: skip


def instead(answer: Any, error: int) -> Any:
    """What is said to whoever was to hear `answer`."""
    match answer:
        case Beaten():
            return Beaten(error, member_id=answer.member_id)
        case Joined():
            return Joined(error, member_id=answer.member_id)
        case Synced():
            return Synced(error)
        case _:
            return Answered(error)
