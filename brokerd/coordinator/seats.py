"""The seats of a group of the classic protocol: who sits there, as whom, and which protocol they have in common. No transitions.

Laws: an instance has one seat, and whoever else names it is fenced; a newcomer speaks a protocol that everybody speaks. What `group` stands
on. Must not come in: clocks, what a member waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.cluster.model import Now
from brokerd.coordinator.events import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION,
    NONE,
    UNKNOWN_MEMBER_ID,
    Join,
    Joined,
    Member,
    State,
)


@dataclass(slots=True)
class Seats:
    group_id: str
    initial_delay_ms: int = 0
    size_max: int = 10_000

    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    """Ids drawn for newcomers that have not come again yet -> when they are forgotten (mono ms)."""

    def _known(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """Kafka's code of why whoever says this is not, or not any more, whom it says it is."""
        if self.state is State.DEAD:
            return COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and instance_id in self.static and self.static[instance_id] != member_id:
            return FENCED_INSTANCE_ID
        if member_id not in self.members:
            return UNKNOWN_MEMBER_ID
        known = generation == self.generation or 0 <= generation == self.members[member_id].brought
        return NONE if known else ILLEGAL_GENERATION

    def _fits(self, e: Join) -> bool:
        """At least one protocol that everybody else speaks too."""
        if not e.protocol_type or not e.protocols:
            return False
        others = [m for m in self.members.values() if m.member_id != e.member_id]
        if not others:
            return True
        if e.protocol_type != self.protocol_type:
            return False
        common = set.intersection(*({name for name, _ in m.protocols} for m in others))
        return any(name in common for name, _ in e.protocols)

    def _add(self, member_id: str, e: Join) -> Member:
        self.promised.pop(member_id, None)
        member = self.members[member_id] = Member(
            member_id, e.instance_id, e.client_id, e.client_host, e.session_ms, e.rebalance_ms, e.protocols
        )
        if e.instance_id is not None:
            self.static[e.instance_id] = member_id
        return member

    def _take(self, member: Member, e: Join, now: Now) -> None:
        member.protocols, member.session_ms, member.rebalance_ms = e.protocols, e.session_ms, e.rebalance_ms
        member.client_id, member.client_host = e.client_id, e.client_host
        member.deadline_ms = now.mono_ms + member.session_ms

    def _vote(self) -> str:
        """The protocol that most members like best among those that all speak."""
        members = list(self.members.values())
        common = set.intersection(*({name for name, _ in m.protocols} for m in members))
        votes: dict[str, int] = {}
        for m in members:
            favourite = next(name for name, _ in m.protocols if name in common)
            votes[favourite] = votes.get(favourite, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name])

    def _joined(self, member: Member) -> Joined:
        leads = member.member_id == self.leader
        listed = (
            tuple((m.member_id, m.instance_id, m.metadata(self.protocol or "")) for m in self.members.values())
            if leads
            else ()
        )
        return Joined(
            NONE, self.generation, self.protocol_type, self.protocol, self.leader or "", member.member_id, listed
        )
