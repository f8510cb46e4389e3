"""Conversion of a group with members between the classic and the consumer protocol (KIP-848). Pure.

Invariants: a member keeps its last assignment until it has joined again. Every member must join again, and none is removed. `groups` decides when
a group is converted, and writes the records of both groups together.
"""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator.classic.events import Join, Member, Reply, Synced
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import consumer_protocol
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.consumer_protocol import PROTOCOL_TYPE
from brokerd.coordinator.consumer.events import (
    ClassicMemberMetadata,
    ConsumerGroupChange,
    GroupMetadata,
    GroupRecordKey,
    MemberMetadata,
    Topics,
)
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.consumer.reconciliation import MemberAssignment
from brokerd.wire.errors import ErrorCode


def changes_from_classic(old: Group, topics: Topics) -> list[ConsumerGroupChange]:
    """The records of a group of the consumer protocol with the members of `old`. Raises ValueError if the protocol type is not `consumer`, or
    if a subscription or assignment cannot be read."""
    if old.protocol_type != PROTOCOL_TYPE:
        raise ValueError(f"protocol type {old.protocol_type!r} is not {PROTOCOL_TYPE!r}")
    facts = [
        ConsumerGroupChange(GroupRecordKey.GROUP, "", GroupMetadata(old.generation)),
        ConsumerGroupChange(GroupRecordKey.TARGET_EPOCH, "", old.generation),
    ]
    owned: set[TopicPartition] = set()
    for member in old.members.values():
        subscription = consumer_protocol.read_subscription(subscription_data(member, old.protocol))
        share = Assignment(consumer_protocol.read_assignment(member.assignment, topics) - owned)
        owned |= share
        member_metadata = MemberMetadata(
            member.instance_id,
            subscription.rack_id,
            member.client_id,
            member.client_host,
            frozenset(subscription.topics),
            None,
            member.rebalance_ms,
            None,
            ClassicMemberMetadata(member.session_ms, member.protocols),
        )
        facts += [
            ConsumerGroupChange(GroupRecordKey.MEMBER, member.member_id, member_metadata),
            ConsumerGroupChange(GroupRecordKey.TARGET_ASSIGNMENT, member.member_id, share),
            ConsumerGroupChange(
                GroupRecordKey.CURRENT_ASSIGNMENT,
                member.member_id,
                MemberAssignment(old.generation, old.generation).with_changes(assigned=share),
            ),
        ]
    return facts


def subscription_data(m: Member, protocol: str | None) -> bytes:
    """A member's subscription for the group's protocol, or for its first protocol before the group has one."""
    offered = dict(m.protocols)
    return offered[protocol] if protocol in offered else m.protocols[0][1] if m.protocols else b""


def detach_waiting(old: Group) -> tuple[list[Reply], list[Join]]:
    """End `old`. Returns the replies to its waiting SyncGroups, and its waiting JoinGroups, which continue in the converted group."""
    replies = [
        Reply(m.sync, Synced(ErrorCode.REBALANCE_IN_PROGRESS)) for m in old.members.values() if m.sync is not None
    ]
    joins = [replace(m.join, member_id=m.member_id) for m in old.members.values() if m.join is not None]
    for m in old.members.values():
        m.join = m.sync = None
    old.end()
    return replies, joins


def convert_to_classic(old: MixedGroup, new: Group, now: Now) -> None:
    """Add the members of `old`, which all use the classic protocol, to `new` and start a rebalance. No member has its generation yet, so a
    coordinator that reads only its record also makes all of them join."""
    new.generation, new.protocol_type, new.pending_members = old.epoch + 1, PROTOCOL_TYPE, old.pending_members
    for member_id, member_metadata in old.members.items():
        side, at = member_metadata.classic, old.current_assignments[member_id]
        assert side is not None, f"{old.group_id}: {member_id} does not use the classic protocol"
        version = consumer_protocol.version_of(side.protocols[0][1])
        new.members[member_id] = Member(
            member_id,
            member_metadata.instance_id,
            member_metadata.client_id,
            member_metadata.client_host,
            side.session_ms,
            member_metadata.rebalance_ms,
            side.protocols,
            consumer_protocol.assignment(at.assigned, member_metadata.topics, old.topics, version),
            deadline_ms=now.mono_ms + side.session_ms,
            consumer_epoch=at.epoch,
        )
    new.static = dict(old.static)
    new.start_rebalance(now)
