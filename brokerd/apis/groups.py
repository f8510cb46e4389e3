"""The groups' doors: where one is, its members by the classic protocol, and administration. Parse, ask `groups`, shape the answer.

Law: each waits on one promise at most. Beside it: `group_offsets`, and `consumer_groups` for the new protocol (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from brokerd.coordinator import events
from brokerd.coordinator.consumer_events import GROUP_ID_NOT_FOUND
from brokerd.coordinator.events import State
from brokerd.coordinator.group import Group
from brokerd.coordinator.groups import INVALID_GROUP_ID, NON_EMPTY_GROUP, Groups
from brokerd.coordinator.leading import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE
from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

GROUP_KEY, TRANSACTION_KEY = 0, 1
COORDINATED_BY = {GROUP_KEY: GROUP_OFFSETS_TOPIC, TRANSACTION_KEY: TRANSACTION_STATE_TOPIC}
CLASSIC, CONSUMER = "classic", "consumer"


class GroupsApi:
    """`find_leader(topic, key, listener)` gives (broker id, host, port) of the coordinator whose partition of `topic` has the group or the
    transactional id `key`, or None while there is none."""

    def __init__(
        self,
        groups: Groups,
        find_leader: Callable[[str, str, str], tuple[int, str, int] | None],
        *,
        session_ms_min: int,
        session_ms_max: int,
    ) -> None:
        self._groups, self._find_leader = groups, find_leader
        self._session_ms_min, self._session_ms_max = session_ms_min, session_ms_max

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.FIND_COORDINATOR: self.find_coordinator,
            ApiKey.JOIN_GROUP: self.join,
            ApiKey.SYNC_GROUP: self.sync,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: self.leave,
            ApiKey.DESCRIBE_GROUPS: self.describe,
            ApiKey.LIST_GROUPS: self.list,
            ApiKey.DELETE_GROUPS: self.delete,
        }

    # -- where ---------------------------------------------------------------------------------------------------------
    def find_coordinator(self, request: Request) -> None:
        body: m.FindCoordinatorRequest = request.body
        if request.header.api_version >= 4:
            request.reply(
                m.FindCoordinatorResponse(
                    coordinators=[
                        m.FindCoordinatorResponse.Coordinator(
                            key=key, node_id=node, host=host, port=port, error_code=error,
                            error_message=message,
                        )
                        for key in body.coordinator_keys
                        for node, host, port, error, message in [self._coordinator(body.key_type, key, request.listener)]
                    ]
                )
            )  # fmt: skip
            return
        node, host, port, error, message = self._coordinator(body.key_type, body.key, request.listener)
        request.reply(
            m.FindCoordinatorResponse(error_code=error, error_message=message, node_id=node, host=host, port=port)
        )

    def _coordinator(self, key_type: int, key: str, listener: str) -> tuple[int, str, int, int, str | None]:
        """(broker id, host, port, error, sentence)."""
        topic = COORDINATED_BY.get(key_type)
        if topic is None:
            return -1, "", -1, ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} are not known"
        if key_type == TRANSACTION_KEY and not key:
            return -1, "", -1, ErrorCode.INVALID_REQUEST, "an empty transactional id has no coordinator"
        found = self._find_leader(topic, key, listener)
        if found is None:
            return -1, "", -1, COORDINATOR_NOT_AVAILABLE, f"its partition of {topic} has no leader"
        return (*found, 0, None)

    # -- membership ------------------------------------------------------------------------------------------------------
    def join(self, request: Request) -> None:
        body: m.JoinGroupRequest = request.body
        version = request.header.api_version

        def reply(answer: Any) -> None:
            assert isinstance(answer, events.Joined)
            protocol = answer.protocol
            request.reply(
                m.JoinGroupResponse(
                    error_code=answer.error,
                    generation_id=answer.generation,
                    protocol_type=answer.protocol_type,
                    # Nullable since v7 only.
                    protocol_name=protocol if protocol is not None or version >= 7 else "",
                    leader=answer.leader,
                    member_id=answer.member_id,
                    members=[
                        m.JoinGroupResponse.JoinGroupResponseMember(
                            member_id=member_id, group_instance_id=instance_id, metadata=metadata
                        )
                        for member_id, instance_id, metadata in answer.members
                    ],
                )
            )

        if not body.group_id:
            reply(events.Joined(INVALID_GROUP_ID))
            return
        if not self._session_ms_min <= body.session_timeout_ms <= self._session_ms_max:
            reply(events.Joined(events.INVALID_SESSION_TIMEOUT, member_id=body.member_id))
            return
        rebalance = body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms
        event = events.Join(
            reply,
            body.member_id,
            self._groups.draw_member_id(request.client_id, body.group_instance_id),
            body.group_instance_id,
            request.client_id,
            f"/{request.client_host}",
            body.session_timeout_ms,
            rebalance if rebalance > 0 else body.session_timeout_ms,
            body.protocol_type,
            tuple((p.name, bytes(p.metadata)) for p in body.protocols),
            version >= 4,
            request.sees,
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(events.Joined(error, member_id=body.member_id))

    def sync(self, request: Request) -> None:
        body: m.SyncGroupRequest = request.body

        def reply(answer: Any) -> None:
            request.reply(
                m.SyncGroupResponse(
                    error_code=answer.error,
                    protocol_type=answer.protocol_type,
                    protocol_name=answer.protocol,
                    assignment=answer.assignment,
                )
            )

        event = events.Sync(
            reply,
            body.member_id,
            body.group_instance_id,
            body.generation_id,
            body.protocol_type,
            body.protocol_name,
            {a.member_id: bytes(a.assignment) for a in body.assignments},
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            # What was under way when the coordinator changed is lost: the member joins again, and needs to look for nobody.
            reply(events.Synced(events.REBALANCE_IN_PROGRESS if error == COORDINATOR_LOAD_IN_PROGRESS else error))

    def heartbeat(self, request: Request) -> None:
        body: m.HeartbeatRequest = request.body

        def reply(answer: Any) -> None:
            request.reply(m.HeartbeatResponse(error_code=answer.error))

        event = events.Heartbeat(reply, body.member_id, body.group_instance_id, body.generation_id)
        error = self._groups.handle(body.group_id, event)
        if error:
            # Of a group that is still read from the log nobody knows better, as in Kafka: aiokafka's consumer ends at any other word.
            reply(events.Answered(0 if error == COORDINATOR_LOAD_IN_PROGRESS else error))

    def leave(self, request: Request) -> None:
        body: m.LeaveGroupRequest = request.body
        many = request.header.api_version >= 3
        members = tuple((x.member_id, x.group_instance_id) for x in body.members) if many else ((body.member_id, None),)

        def reply(answer: Any) -> None:
            errors = answer.errors if isinstance(answer, events.Left) else (answer.error,) * len(members)
            if many:
                top = answer.error if isinstance(answer, events.Answered) else 0
                request.reply(
                    m.LeaveGroupResponse(
                        error_code=top,
                        members=[
                            m.LeaveGroupResponse.MemberResponse(member_id=i, group_instance_id=s, error_code=e)
                            for (i, s), e in zip(members, errors, strict=True)
                        ],
                    )
                )
            else:
                request.reply(m.LeaveGroupResponse(error_code=errors[0]))

        error = self._groups.handle(body.group_id, events.Leave(reply, members))
        if error:
            reply(events.Answered(error))

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeGroupsRequest = request.body
        out = []
        for group_id in dict.fromkeys(body.groups):
            group, error = self._groups.existing(group_id)
            shown = m.DescribeGroupsResponse.DescribedGroup(
                group_id=group_id, error_code=error, group_state="" if error else State.DEAD.value
            )
            if isinstance(group, Group):  # of the new protocol this API knows nothing, as in Kafka
                shown.group_state = group.state.value
                shown.protocol_type = group.protocol_type or ""
                stable = group.state is State.STABLE
                shown.protocol_data = (group.protocol or "") if stable else ""
                shown.members = [
                    m.DescribeGroupsResponse.DescribedGroupMember(
                        member_id=x.member_id,
                        group_instance_id=x.instance_id,
                        client_id=x.client_id,
                        client_host=x.client_host,
                        member_metadata=x.metadata(group.protocol or "") if stable else b"",
                        member_assignment=x.assignment if stable else b"",
                    )
                    for x in group.members.values()
                ]
            out.append(shown)
        request.reply(m.DescribeGroupsResponse(groups=out))

    def list(self, request: Request) -> None:
        body: m.ListGroupsRequest = request.body
        states = {s.lower() for s in body.states_filter}
        types = {t.lower() for t in body.types_filter}
        loading = any(not led.loaded for led in self._groups.led.values())
        groups = [
            m.ListGroupsResponse.ListedGroup(
                group_id=g.group_id,
                protocol_type=(g.protocol_type or "") if isinstance(g, Group) else CONSUMER,
                group_state=g.state.value,
                group_type=kind,
            )
            for led in self._groups.led.values()
            for g in led.groups.values()
            for kind in [CLASSIC if isinstance(g, Group) else CONSUMER]
            if (not states or g.state.value.lower() in states) and (not types or kind in types)
        ]
        request.reply(
            m.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else 0, groups=groups)
        )

    def delete(self, request: Request) -> None:
        body: m.DeleteGroupsRequest = request.body
        results: dict[str, int] = {}
        names = list(dict.fromkeys(body.groups_names))
        left = len(names)

        def one(group_id: str, error: int) -> None:
            nonlocal left
            results[group_id] = error
            left -= 1
            if left == 0:
                request.reply(
                    m.DeleteGroupsResponse(
                        results=[
                            m.DeleteGroupsResponse.DeletableGroupResult(group_id=g, error_code=e)
                            for g, e in results.items()
                        ]
                    )
                )

        if not names:
            request.reply(m.DeleteGroupsResponse())
        for group_id in names:
            group, error = self._groups.existing(group_id)
            if error or group is None:
                one(group_id, error or GROUP_ID_NOT_FOUND)
            elif group.members:
                one(group_id, NON_EMPTY_GROUP)
            else:
                self._groups.tombstones(
                    group_id,
                    group,
                    list(group.commits.offsets),
                    True,
                    lambda e, group_id=group_id: one(group_id, e),  # type: ignore[misc]
                )
