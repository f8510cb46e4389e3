"""The members of a classic group: static and pending members, common protocols, checks of a member's identity. No state transitions.

Invariants: a group instance id belongs to one member, and any other member id with it is fenced. A joining member supports a protocol that all
other members support.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.cluster.model import Now
from brokerd.coordinator.classic.events import (
    Join,
    Joined,
    Member,
    State,
)
from brokerd.wire.errors import ErrorCode


@dataclass(slots=True)
class GroupMembership:
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
    pending_members: dict[str, int] = field(default_factory=dict)
    """{generated member id that has not joined yet: its expiration (mono ms)}."""

    def _member_error(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """The error of a request with this member id, instance id and generation."""
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and instance_id in self.static and self.static[instance_id] != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        known = generation == self.generation or 0 <= generation == self.members[member_id].consumer_epoch
        return ErrorCode.NONE if known else ErrorCode.ILLEGAL_GENERATION

    def _supports_group_protocols(self, event: Join) -> bool:
        """Return whether the joining member supports a protocol that all other members support."""
        if not event.protocol_type or not event.protocols:
            return False
        others = [m for m in self.members.values() if m.member_id != event.member_id]
        if not others:
            return True
        if event.protocol_type != self.protocol_type:
            return False
        common = set.intersection(*({name for name, _ in m.protocols} for m in others))
        return any(name in common for name, _ in event.protocols)

    def _add(self, member_id: str, e: Join) -> Member:
        self.pending_members.pop(member_id, None)
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

    def _select_protocol(self) -> str:
        """The protocol with the most votes: each member votes for its first protocol among those that all members support."""
        members = list(self.members.values())
        common = set.intersection(*({name for name, _ in m.protocols} for m in members))
        votes: dict[str, int] = {}
        for m in members:
            favourite = next(name for name, _ in m.protocols if name in common)
            votes[favourite] = votes.get(favourite, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name])

    def _join_response(self, member: Member) -> Joined:
        leads = member.member_id == self.leader
        listed = (
            tuple((m.member_id, m.instance_id, m.metadata(self.protocol or "")) for m in self.members.values())
            if leads
            else ()
        )
        return Joined(
            ErrorCode.NONE,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            member.member_id,
            listed,
        )
