"""One group with members of both protocols: the machine of the new one, which serves members of the classic one too (KIP-848). A sans-IO core.

Laws: a join is a heartbeat that says everything, a member's epoch is its generation; nobody leads, the coordinator assigns; whoever is told
to join again and does not, or joins and does not ask what it was given, is put out after its rebalance timeout. Called by `groups`. Must not
come in: how a group becomes one of the other protocol (that is `conversion`'s).

| the member, by its standing                 | Heartbeat            | SyncGroup               |
|---------------------------------------------|----------------------|-------------------------|
| the group's epoch is newer                  | REBALANCE_IN_PROGRESS| REBALANCE_IN_PROGRESS   |
| UNREVOKED: it has to give up                | REBALANCE_IN_PROGRESS| what it keeps           |
| UNRELEASED, and the rest has become free    | REBALANCE_IN_PROGRESS| what it has             |
| otherwise                                   | ok                   | what it has             |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from brokerd.cluster.model import Now
from brokerd.coordinator import consumer_group, embedded
from brokerd.coordinator.assignors import NOTHING
from brokerd.coordinator.consumer_events import JOINS, Beat, Change, ClassicSide, PersistChanges, Profile
from brokerd.coordinator.consumer_group import ConsumerGroup, Effect
from brokerd.coordinator.embedded import PROTOCOL_TYPE, ConsumerProtocolSubscription
from brokerd.coordinator.events import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Answered,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Reply,
    Sync,
    Synced,
)
from brokerd.coordinator.reconciliation import MemberState

Event = consumer_group.Event | Join | Sync | Heartbeat | Leave


@dataclass(slots=True, kw_only=True)
class MixedGroup(ConsumerGroup):
    promised: dict[str, int] = field(default_factory=dict)
    """Ids drawn for newcomers that have not come again yet -> when they are forgotten (mono ms)."""
    awaited: dict[str, int] = field(default_factory=dict)
    """By when a member must have joined again, or have asked what it was given (mono ms)."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Join():
                self.begin(now.wall_ms)
                return self._settle((event.token, self._join(event, now)))
            case Sync():
                self.begin(now.wall_ms)
                return self._settle((event.token, self._sync(event, now)))
            case Heartbeat():
                self.begin(now.wall_ms)
                return self._settle((event.token, Answered(self._heartbeat(event, now))))
            case Leave():
                self.begin(now.wall_ms)
                return self._settle((event.token, Left(tuple(self._put_out(*named) for named in event.members))))
            case _:
                return ConsumerGroup.handle(self, event, now)

    def found(self, brought: Iterable[Change], beat: Beat, now: Now) -> list[Effect]:
        """It begins as what a classic group was, with the member that wants it to be of the new protocol: if that is refused, as nothing."""
        self.begin(now.wall_ms)
        for change in brought:
            self.change(change.fact, change.name, change.value)
        self._raise_epoch()  # what was not assigned there, and to whom, is to be reckoned here
        answer = self._beat(beat, now)
        if answer.error:
            self.take_back()
            return [Reply(beat.token, answer)]
        for member_id in self.members:
            self._wind(member_id, now)
        return [
            replace(x, after_classic=True) if isinstance(x, PersistChanges) else x
            for x in self._settle((beat.token, answer))
        ]

    @property
    def classic_alone(self) -> bool:
        """Nobody speaks the new protocol any more, and nobody waits for the log's word."""
        return 0 < self.classics == len(self.members) and not self.waits

    # -- joining -------------------------------------------------------------------------------------------------------
    def _join(self, e: Join, now: Now) -> Joined:
        def no(error: int, member_id: str = "") -> Joined:
            return Joined(error, member_id=member_id or e.member_id)

        if self.dead:
            return no(COORDINATOR_NOT_AVAILABLE)
        seat = self.static.get(e.instance_id) if e.instance_id is not None else None
        if seat is not None and e.member_id not in ("", seat):
            return no(FENCED_INSTANCE_ID)
        if e.member_id and self._classic(e.member_id) is None and e.member_id not in self.promised:
            return no(UNKNOWN_MEMBER_ID)
        protocol = self._common(e, seat)
        wants = _subscription(e, protocol)
        if protocol is None or wants is None:
            return no(INCONSISTENT_GROUP_PROTOCOL)
        if not e.member_id and e.id_first and e.instance_id is None:
            if len(self.members) >= self.terms.size_max:
                return no(GROUP_MAX_SIZE_REACHED)
            self.promised[e.drawn_id] = now.mono_ms + e.session_ms
            self._watch(self.promised[e.drawn_id])
            return no(MEMBER_ID_REQUIRED, e.drawn_id)
        member_id = e.member_id or e.drawn_id
        answer = self._beat(
            Beat(
                e.token, member_id, JOINS, e.client_id, e.client_host, e.instance_id, wants.rack_id, e.rebalance_ms,
                frozenset(wants.topics), "", None, embedded.share_of(wants.owned_partitions, self.topics), e.sees,
                ClassicSide(e.session_ms, e.protocols),
            ),
            now,
        )  # fmt: skip
        if answer.error:
            return no(answer.error)
        self.promised.pop(member_id, None)
        self.awaited[member_id] = now.mono_ms + e.rebalance_ms
        self._watch(self.awaited[member_id])
        return Joined(NONE, answer.epoch, PROTOCOL_TYPE, protocol, "", member_id)

    def _common(self, e: Join, seat: str | None) -> str | None:
        """Of the protocols that it speaks the first that all others of its kind speak too: they may be left to themselves one day."""
        if e.protocol_type != PROTOCOL_TYPE:
            return None
        common = {name for name, _ in e.protocols}
        for member_id, m in self.members.items():
            if m.classic is not None and member_id not in (e.member_id, seat):
                common &= {name for name, _ in m.classic.protocols}
        return next((name for name, _ in e.protocols if name in common), None)

    def _classic(self, member_id: str) -> Profile | None:
        """A member that speaks the classic protocol."""
        profile = self.members.get(member_id)
        return profile if profile is not None and profile.classic is not None else None

    # -- syncing, staying ----------------------------------------------------------------------------------------------
    def _known(self, member_id: str, instance_id: str | None, generation: int) -> int:
        if self.dead:
            return COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and self.static.get(instance_id, member_id) != member_id:
            return FENCED_INSTANCE_ID
        if self._classic(member_id) is None:
            return UNKNOWN_MEMBER_ID
        return NONE if generation == self.standings[member_id].epoch else ILLEGAL_GENERATION

    def _sync(self, e: Sync, now: Now) -> Synced:
        error = self._known(e.member_id, e.instance_id, e.generation)
        profile = self._classic(e.member_id)
        if error or profile is None or profile.classic is None:
            return Synced(error)
        said = dict(profile.classic.protocols)
        protocol = e.protocol if e.protocol is not None else next(iter(said))
        if e.protocol_type not in (None, PROTOCOL_TYPE) or protocol not in said:
            return Synced(INCONSISTENT_GROUP_PROTOCOL)
        at = self.standings[e.member_id]
        self._wind(e.member_id, now)
        # Whoever has to give up has joined already: it learns here what it keeps, and joins again without the rest.
        if at.epoch < self.epoch and at.state is not MemberState.UNREVOKED:
            self._call(e.member_id, now)
            return Synced(REBALANCE_IN_PROGRESS)
        self.awaited.pop(e.member_id, None)
        version = embedded.version_of(said[protocol])
        given = embedded.assignment(at.assigned, profile.topics, self.topics, version)
        return Synced(NONE, PROTOCOL_TYPE, protocol, given)

    def _heartbeat(self, e: Heartbeat, now: Now) -> int:
        error = self._known(e.member_id, e.instance_id, e.generation)
        if error:
            return error
        self._wind(e.member_id, now)
        if (
            self._seen != self.topics.version and not self.patterns
        ):  # (patterns are matched when somebody beats who may see)
            self._raise_epoch(only_if_topics_changed=True)
        if not self._to_join_again(e.member_id):
            return NONE
        self._call(e.member_id, now)
        return REBALANCE_IN_PROGRESS

    def _to_join_again(self, member_id: str) -> bool:
        at = self.standings[member_id]
        if at.epoch < self.epoch or at.state is MemberState.UNREVOKED:
            return True
        wants = self.targets.get(member_id, NOTHING) - at.assigned
        return at.state is MemberState.UNRELEASED and not any(tp in self.holders for tp in wants)

    def _call(self, member_id: str, now: Now) -> None:
        """It is told to join again."""
        by = self.awaited.setdefault(member_id, now.mono_ms + self.members[member_id].rebalance_ms)
        self._watch(by)

    # -- leaving -------------------------------------------------------------------------------------------------------
    def _put_out(self, member_id: str, instance_id: str | None) -> int:
        """Kafka's code. Members of the new protocol leave by their heartbeats."""
        if self.dead:
            return COORDINATOR_NOT_AVAILABLE
        seat = self.static.get(instance_id, "") if instance_id is not None else member_id
        if instance_id is not None and seat and member_id not in ("", seat):
            return FENCED_INSTANCE_ID
        if self.promised.pop(seat, None) is not None:
            return NONE
        if self._classic(seat) is None:
            return UNKNOWN_MEMBER_ID
        self._remove(seat)
        self._raise_epoch()
        return NONE

    # -- time ----------------------------------------------------------------------------------------------------------
    def _watch(self, mono_ms: int) -> None:
        self._due = mono_ms if self._due is None else min(self._due, mono_ms)

    def _late(self, now: Now) -> list[str]:
        for drawn in [d for d, at in self.promised.items() if at <= now.mono_ms]:
            del self.promised[drawn]
        late = ConsumerGroup._late(self, now)
        unheard = [m for m, by in self.awaited.items() if by <= now.mono_ms]
        for member_id in unheard:
            del self.awaited[member_id]
        return late + [m for m in unheard if self._classic(m) is not None and m not in late]

    def _times(self) -> list[int]:
        return [*ConsumerGroup._times(self), *self.promised.values(), *self.awaited.values()]


def _subscription(e: Join, protocol: str | None) -> ConsumerProtocolSubscription | None:
    """What it wants, or None where that is not to be read."""
    try:
        return embedded.read_subscription(dict(e.protocols)[protocol]) if protocol is not None else None
    except ValueError:
        return None
