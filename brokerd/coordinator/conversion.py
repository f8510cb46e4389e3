"""A living group goes over from one protocol to the other: what its members bring with them (KIP-848). Pure.

Laws: whoever comes along holds what it was given last, until it has joined again; everybody is to join again, nobody is put out. Called by
`groups`, which has the old group's record and the new one's in one write. Must not come in: when a group goes over (`groups` says).
"""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator import embedded
from brokerd.coordinator.assignors import Share
from brokerd.coordinator.consumer_events import Change, ClassicSide, Fact, Header, Profile, Topics
from brokerd.coordinator.embedded import PROTOCOL_TYPE
from brokerd.coordinator.events import REBALANCE_IN_PROGRESS, Join, Member, Reply, Synced
from brokerd.coordinator.group import Group
from brokerd.coordinator.mixed_group import MixedGroup
from brokerd.coordinator.reconciliation import Standing


def brought(old: Group, topics: Topics) -> list[Change]:
    """The facts of a group of the new protocol whose members are those of `old`. Raises ValueError where it is no consumers' group, or
    their words are not to be read: then nobody but they know what they have."""
    if old.protocol_type != PROTOCOL_TYPE:
        raise ValueError(f"its protocol type is {old.protocol_type!r}")
    facts = [Change(Fact.GROUP, "", Header(old.generation)), Change(Fact.TARGET_EPOCH, "", old.generation)]
    held: set[TopicPartition] = set()
    for m in old.members.values():
        wants = embedded.read_subscription(words_of(m, old.protocol))
        share = Share(embedded.read_assignment(m.assignment, topics) - held)
        held |= share
        profile = Profile(
            m.instance_id, wants.rack_id, m.client_id, m.client_host, frozenset(wants.topics), None, m.rebalance_ms, None,
            ClassicSide(m.session_ms, m.protocols),
        )  # fmt: skip
        facts += [
            Change(Fact.MEMBER, m.member_id, profile),
            Change(Fact.TARGET, m.member_id, share),
            Change(Fact.STANDING, m.member_id, Standing(old.generation, old.generation).but(assigned=share)),
        ]
    return facts


def words_of(m: Member, protocol: str | None) -> bytes:
    """What it said of itself, in the group's protocol or, before there is one, in the one it likes best."""
    said = dict(m.protocols)
    return said[protocol] if protocol in said else m.protocols[0][1] if m.protocols else b""


def released(old: Group) -> tuple[list[Reply], list[Join]]:
    """Who waited in `old` once it is no more: what the ones are told, and the joins of the others, which are joins of its successor."""
    told = [Reply(m.sync, Synced(REBALANCE_IN_PROGRESS)) for m in old.members.values() if m.sync is not None]
    joins = [replace(m.join, member_id=m.member_id) for m in old.members.values() if m.join is not None]
    for m in old.members.values():
        m.join = m.sync = None
    old.end()
    return told, joins


def to_classic(old: MixedGroup, new: Group, now: Now) -> None:
    """Everybody of `old` speaks the classic protocol: `new` is made of them, in the midst of a rebalance. Nobody has reached its generation,
    so that whoever reads only its record has all of them join, too."""
    new.generation, new.protocol_type, new.promised = old.epoch + 1, PROTOCOL_TYPE, old.promised
    for member_id, profile in old.members.items():
        side, at = profile.classic, old.standings[member_id]
        assert side is not None, f"{old.group_id}: {member_id} does not speak the classic protocol"
        version = embedded.version_of(side.protocols[0][1])
        new.members[member_id] = Member(
            member_id, profile.instance_id, profile.client_id, profile.client_host, side.session_ms, profile.rebalance_ms,
            side.protocols, embedded.assignment(at.assigned, profile.topics, old.topics, version),
            deadline_ms=now.mono_ms + side.session_ms, brought=at.epoch,
        )  # fmt: skip
    new.static = dict(old.static)
    new.begin_anew(now)
