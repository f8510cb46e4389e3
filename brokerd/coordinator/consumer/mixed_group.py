"""A group of the consumer protocol that also serves members of the classic protocol (KIP-848). Pure state machine.

Invariants: a JoinGroup is handled as a heartbeat with all fields, and a member's epoch is its generation. There is no group leader: the
coordinator assigns. A member that does not rejoin, or does not send SyncGroup after JoinGroup, is removed after its rebalance timeout.
`migration` converts groups between the protocols.

| the member's current assignment             | Heartbeat            | SyncGroup               |
|---------------------------------------------|----------------------|-------------------------|
| the group's epoch is newer                  | REBALANCE_IN_PROGRESS| REBALANCE_IN_PROGRESS   |
| UNREVOKED: partitions must be revoked       | REBALANCE_IN_PROGRESS| the partitions it keeps |
| UNRELEASED, and the rest has become free    | REBALANCE_IN_PROGRESS| its current assignment  |
| otherwise                                   | ok                   | its current assignment  |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from brokerd.cluster.model import Now
from brokerd.coordinator.classic.events import (
    Completed,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Reply,
    Sync,
    Synced,
)
from brokerd.coordinator.consumer import consumer_protocol, group
from brokerd.coordinator.consumer.assignors import EMPTY_ASSIGNMENT
from brokerd.coordinator.consumer.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription
from brokerd.coordinator.consumer.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    ClassicMemberMetadata,
    ConsumerGroupChange,
    ConsumerHeartbeat,
    MemberMetadata,
    PersistChanges,
)
from brokerd.coordinator.consumer.group import ConsumerGroupMachine, Effect
from brokerd.coordinator.consumer.reconciliation import MemberState
from brokerd.wire.errors import ErrorCode

Event = group.Event | Join | Sync | Heartbeat | Leave


@dataclass(slots=True, kw_only=True)
class MixedGroup(ConsumerGroupMachine):
    pending_members: dict[str, int] = field(default_factory=dict)
    """{generated member id that has not joined yet: its expiration (mono ms)}."""
    rejoin_deadlines: dict[str, int] = field(default_factory=dict)
    """{member id: deadline for the next JoinGroup or SyncGroup (mono ms)}."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Join():
                self.begin(now.wall_ms)
                return self._persist_and_reply((event.token, self._join(event, now)))
            case Sync():
                self.begin(now.wall_ms)
                return self._persist_and_reply((event.token, self._sync(event, now)))
            case Heartbeat():
                self.begin(now.wall_ms)
                return self._persist_and_reply((event.token, Completed(self._heartbeat(event, now))))
            case Leave():
                self.begin(now.wall_ms)
                return self._persist_and_reply(
                    (event.token, Left(tuple(self._leave_classic(*named) for named in event.members)))
                )
            case _:
                return ConsumerGroupMachine.handle(self, event, now)

    def create_from_classic(
        self, changes: Iterable[ConsumerGroupChange], request: ConsumerHeartbeat, now: Now
    ) -> list[Effect]:
        """Start as the converted classic group with the joining member of the consumer protocol. If the member is rejected, nothing changes."""
        self.begin(now.wall_ms)
        for change in changes:
            self.change(change.fact, change.name, change.value)
        self._raise_epoch()  # the coordinator computes a target assignment for the converted group
        response = self._consumer_heartbeat(request, now)
        if response.error:
            self.roll_back()
            return [Reply(request.token, response)]
        for member_id in self.members:
            self._restart_session(member_id, now)
        return [
            replace(x, after_classic=True) if isinstance(x, PersistChanges) else x
            for x in self._persist_and_reply((request.token, response))
        ]

    @property
    def all_members_classic(self) -> bool:
        """True if all members use the classic protocol and no reply waits for a write."""
        return 0 < self.classic_member_count == len(self.members) and not self.has_pending_replies

    # -- joining -------------------------------------------------------------------------------------------------------
    def _join(self, event: Join, now: Now) -> Joined:
        def no(error: int, member_id: str = "") -> Joined:
            return Joined(error, member_id=member_id or event.member_id)

        if self.dead:
            return no(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        current_id = self.static.get(event.instance_id) if event.instance_id is not None else None
        if current_id is not None and event.member_id not in ("", current_id):
            return no(ErrorCode.FENCED_INSTANCE_ID)
        if (
            event.member_id
            and self._classic_member(event.member_id) is None
            and event.member_id not in self.pending_members
        ):
            return no(ErrorCode.UNKNOWN_MEMBER_ID)
        protocol = self._common_protocol(event, current_id)
        subscription = _subscription(event, protocol)
        if protocol is None or subscription is None:
            return no(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not event.member_id and event.require_known_member_id and event.instance_id is None:
            if len(self.members) >= self.group_config.size_max:
                return no(ErrorCode.GROUP_MAX_SIZE_REACHED)
            self.pending_members[event.new_member_id] = now.mono_ms + event.session_ms
            self._schedule(self.pending_members[event.new_member_id])
            return no(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)
        member_id = event.member_id or event.new_member_id
        response = self._consumer_heartbeat(
            ConsumerHeartbeat(
                event.token,
                member_id,
                JOIN_GROUP_MEMBER_EPOCH,
                event.client_id,
                event.client_host,
                event.instance_id,
                subscription.rack_id,
                event.rebalance_ms,
                frozenset(subscription.topics),
                "",
                None,
                consumer_protocol.assignment_of(subscription.owned_partitions, self.topics),
                event.may_describe,
                ClassicMemberMetadata(event.session_ms, event.protocols),
            ),
            now,
        )
        if response.error:
            return no(response.error)
        self.pending_members.pop(member_id, None)
        self.rejoin_deadlines[member_id] = now.mono_ms + event.rebalance_ms
        self._schedule(self.rejoin_deadlines[member_id])
        return Joined(ErrorCode.NONE, response.epoch, PROTOCOL_TYPE, protocol, "", member_id)

    def _common_protocol(self, event: Join, current_id: str | None) -> str | None:
        """The member's first protocol that all other classic members support. The classic members need a common protocol in case the group is converted
        back."""
        if event.protocol_type != PROTOCOL_TYPE:
            return None
        common = {name for name, _ in event.protocols}
        for member_id, m in self.members.items():
            if m.classic is not None and member_id not in (event.member_id, current_id):
                common &= {name for name, _ in m.classic.protocols}
        return next((name for name, _ in event.protocols if name in common), None)

    def _classic_member(self, member_id: str) -> MemberMetadata | None:
        """The metadata of a member that uses the classic protocol, otherwise None."""
        member_metadata = self.members.get(member_id)
        return member_metadata if member_metadata is not None and member_metadata.classic is not None else None

    # -- syncing, staying ----------------------------------------------------------------------------------------------
    def _member_error(self, member_id: str, instance_id: str | None, generation: int) -> int:
        if self.dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance_id is not None and self.static.get(instance_id, member_id) != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if self._classic_member(member_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return (
            ErrorCode.NONE if generation == self.current_assignments[member_id].epoch else ErrorCode.ILLEGAL_GENERATION
        )

    def _sync(self, event: Sync, now: Now) -> Synced:
        error = self._member_error(event.member_id, event.instance_id, event.generation)
        member_metadata = self._classic_member(event.member_id)
        if error or member_metadata is None or member_metadata.classic is None:
            return Synced(error)
        offered = dict(member_metadata.classic.protocols)
        protocol = event.protocol if event.protocol is not None else next(iter(offered))
        if event.protocol_type not in (None, PROTOCOL_TYPE) or protocol not in offered:
            return Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        at = self.current_assignments[event.member_id]
        self._restart_session(event.member_id, now)
        # A member that has to revoke partitions has joined already. It gets the partitions that it keeps, and rejoins without the others.
        if at.epoch < self.epoch and at.state is not MemberState.UNREVOKED:
            self._request_rejoin(event.member_id, now)
            return Synced(ErrorCode.REBALANCE_IN_PROGRESS)
        self.rejoin_deadlines.pop(event.member_id, None)
        version = consumer_protocol.version_of(offered[protocol])
        given = consumer_protocol.assignment(at.assigned, member_metadata.topics, self.topics, version)
        return Synced(ErrorCode.NONE, PROTOCOL_TYPE, protocol, given)

    def _heartbeat(self, event: Heartbeat, now: Now) -> int:
        error = self._member_error(event.member_id, event.instance_id, event.generation)
        if error:
            return error
        self._restart_session(event.member_id, now)
        if (
            self._seen != self.topics.version and not self.patterns
        ):  # (regular expressions are resolved in a heartbeat of an authorized member)
            self._raise_epoch(only_if_topics_changed=True)
        if not self._must_rejoin(event.member_id):
            return ErrorCode.NONE
        self._request_rejoin(event.member_id, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _must_rejoin(self, member_id: str) -> bool:
        at = self.current_assignments[member_id]
        if at.epoch < self.epoch or at.state is MemberState.UNREVOKED:
            return True
        missing = self.targets.get(member_id, EMPTY_ASSIGNMENT) - at.assigned
        return at.state is MemberState.UNRELEASED and not any(tp in self.owners for tp in missing)

    def _request_rejoin(self, member_id: str, now: Now) -> None:
        """Set the deadline of the member's next JoinGroup. The caller answers REBALANCE_IN_PROGRESS."""
        by = self.rejoin_deadlines.setdefault(member_id, now.mono_ms + self.members[member_id].rebalance_ms)
        self._schedule(by)

    # -- leaving -------------------------------------------------------------------------------------------------------
    def _leave_classic(self, member_id: str, instance_id: str | None) -> int:
        """The error of a LeaveGroup for this member. Members of the consumer protocol leave with a heartbeat."""
        if self.dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        current_id = self.static.get(instance_id, "") if instance_id is not None else member_id
        if instance_id is not None and current_id and member_id not in ("", current_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if self.pending_members.pop(current_id, None) is not None:
            return ErrorCode.NONE
        if self._classic_member(current_id) is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._remove(current_id)
        self._raise_epoch()
        return ErrorCode.NONE

    # -- time ----------------------------------------------------------------------------------------------------------
    def _schedule(self, mono_ms: int) -> None:
        self._next_deadline_ms = mono_ms if self._next_deadline_ms is None else min(self._next_deadline_ms, mono_ms)

    def _expired_members(self, now: Now) -> list[str]:
        for expired_id in [d for d, at in self.pending_members.items() if at <= now.mono_ms]:
            del self.pending_members[expired_id]
        late = ConsumerGroupMachine._expired_members(self, now)
        overdue = [m for m, by in self.rejoin_deadlines.items() if by <= now.mono_ms]
        for member_id in overdue:
            del self.rejoin_deadlines[member_id]
        return late + [m for m in overdue if self._classic_member(m) is not None and m not in late]

    def _deadlines(self) -> list[int]:
        return [*ConsumerGroupMachine._deadlines(self), *self.pending_members.values(), *self.rejoin_deadlines.values()]


def _subscription(e: Join, protocol: str | None) -> ConsumerProtocolSubscription | None:
    """The member's subscription, or None if it cannot be read."""
    try:
        return consumer_protocol.read_subscription(dict(e.protocols)[protocol]) if protocol is not None else None
    except ValueError:
        return None
