"""FindCoordinator, the classic group protocol, and group administration.

Invariant: a request waits for at most one event. Related: `group_offsets`, and `consumer_groups` for the consumer protocol (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AUTHORIZATION_FAILED, AuthHelper
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import State
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.group_replay import AnyGroup
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
COORDINATED_BY = {
    GROUP_KEY: GROUP_OFFSETS_TOPIC,
    TRANSACTION_KEY: TRANSACTION_STATE_TOPIC,
    SHARE_KEY: SHARE_STATE_TOPIC,
}
NOT_FOUND_SINCE = 6
"""First version of DescribeGroups that has GROUP_ID_NOT_FOUND. Older versions describe such a group as dead (KIP-1043)."""
FIRST_WITH_SHARE = 6
"""First version of FindCoordinator with share coordinators."""
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


class GroupsApi:
    """`find_leader(topic, key, listener)` returns (broker id, host, port) of the coordinator of the group or transactional id `key`: the leader of
    its partition of `topic`. None: no leader."""

    def __init__(
        self,
        groups: GroupCoordinator,
        find_leader: Callable[[str, str, str], tuple[int, str, int] | None],
        *,
        session_ms_min: int,
        session_ms_max: int,
        auth: AuthHelper,
        delete_share_state: Callable[[ShareGroup, Callable[[int], None]], None] = lambda group, done: done(
            ErrorCode.NONE
        ),
    ) -> None:
        """`delete_share_state` deletes the state of the partitions of a share group, and calls `done(error)`."""
        self._groups, self._find_leader, self._auth = groups, find_leader, auth
        self._delete_share_state = delete_share_state
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

    # -- coordinator lookup --------------------------------------------------------------------------------------------
    def find_coordinator(self, request: Request) -> None:
        body: m.FindCoordinatorRequest = request.body
        resource = Resource.GROUP if body.key_type == GROUP_KEY else Resource.TRANSACTIONAL_ID
        if body.key_type == SHARE_KEY:
            self._find_share_coordinators(request)
            return
        denied = AUTHORIZATION_FAILED[resource]
        if request.header.api_version >= 4:
            authorized, unauthorized = self._auth.partition_by_authorized(
                request, Operation.DESCRIBE, resource, body.coordinator_keys, lambda key: key
            )
            coordinator = m.FindCoordinatorResponse.Coordinator
            request.reply(
                m.FindCoordinatorResponse(
                    coordinators=[
                        coordinator(
                            key=key,
                            node_id=node,
                            host=host,
                            port=port,
                            error_code=error,
                            error_message=message,
                        )
                        for key in authorized
                        for node, host, port, error, message in [
                            self._coordinator(body.key_type, key, request.listener)
                        ]
                    ]
                    + [coordinator(key=k, node_id=-1, host="", port=-1, error_code=denied) for k in unauthorized]
                )
            )
            return
        if not self._auth.authorize(request, Operation.DESCRIBE, resource, body.key):
            request.reply(m.FindCoordinatorResponse(error_code=denied, node_id=-1, host="", port=-1))
            return
        node, host, port, error, message = self._coordinator(body.key_type, body.key, request.listener)
        request.reply(
            m.FindCoordinatorResponse(error_code=error, error_message=message, node_id=node, host=host, port=port)
        )

    def _find_share_coordinators(self, request: Request) -> None:
        """Authorize the look-up of a share coordinator. Only brokers may request it, as in Kafka."""
        coordinator = m.FindCoordinatorResponse.Coordinator
        found: tuple[int, str, int, int, str | None]
        if not self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            found = (-1, "", -1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        elif request.header.api_version < FIRST_WITH_SHARE:
            found = (
                -1,
                "",
                -1,
                ErrorCode.INVALID_REQUEST,
                "a share coordinator is looked up with FindCoordinator version 6",
            )
        else:
            request.reply(
                m.FindCoordinatorResponse(
                    coordinators=[
                        coordinator(key=key, node_id=node, host=host, port=port, error_code=error, error_message=text)
                        for key in request.body.coordinator_keys
                        for node, host, port, error, text in [self._coordinator(SHARE_KEY, key, request.listener)]
                    ]
                )
            )
            return
        node, host, port, error, text = found
        request.reply(
            m.FindCoordinatorResponse(
                error_code=error,
                error_message=text,
                node_id=node,
                host=host,
                port=port,
                coordinators=[
                    coordinator(key=key, node_id=node, host=host, port=port, error_code=error, error_message=text)
                    for key in request.body.coordinator_keys
                ],
            )
        )

    def _coordinator(self, key_type: int, key: str, listener: str) -> tuple[int, str, int, int, str | None]:
        """(broker id, host, port, error, error message)."""
        topic = COORDINATED_BY.get(key_type)
        if topic is None:
            return -1, "", -1, ErrorCode.INVALID_REQUEST, f"unknown coordinator key type {key_type}"
        if key_type == TRANSACTION_KEY and not key:
            return -1, "", -1, ErrorCode.INVALID_REQUEST, "the transactional id must not be empty"
        found = self._find_leader(topic, key, listener)
        if found is None:
            return (
                -1,
                "",
                -1,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the coordinator's partition of {topic} has no leader",
            )
        return (*found, 0, None)

    def _may_read(self, request: Request) -> bool:
        return self._auth.authorize(request, Operation.READ, Resource.GROUP, request.body.group_id)

    # -- membership ------------------------------------------------------------------------------------------------------
    def join(self, request: Request) -> None:
        body: m.JoinGroupRequest = request.body
        if not self._may_read(request):
            request.reply(m.JoinGroupResponse(error_code=DENIED))
            return
        version = request.header.api_version

        def reply(response: events.Joined) -> None:
            protocol = response.protocol
            request.reply(
                m.JoinGroupResponse(
                    error_code=response.error,
                    generation_id=response.generation,
                    protocol_type=response.protocol_type,
                    # Nullable since v7 only.
                    protocol_name=protocol if protocol is not None or version >= 7 else "",
                    leader=response.leader,
                    member_id=response.member_id,
                    members=[
                        m.JoinGroupResponse.JoinGroupResponseMember(
                            member_id=member_id, group_instance_id=instance_id, metadata=metadata
                        )
                        for member_id, instance_id, metadata in response.members
                    ],
                )
            )

        if not body.group_id:
            reply(events.Joined(ErrorCode.INVALID_GROUP_ID))
            return
        if not self._session_ms_min <= body.session_timeout_ms <= self._session_ms_max:
            reply(events.Joined(ErrorCode.INVALID_SESSION_TIMEOUT, member_id=body.member_id))
            return
        rebalance = body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms
        event = events.Join(
            reply,
            body.member_id,
            self._groups.generate_member_id(request.client_id, body.group_instance_id),
            body.group_instance_id,
            request.client_id,
            f"/{request.client_host}",
            body.session_timeout_ms,
            rebalance if rebalance > 0 else body.session_timeout_ms,
            body.protocol_type,
            tuple((p.name, bytes(p.metadata)) for p in body.protocols),
            version >= 4,
            self._auth.describable_topics(request),
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(events.Joined(error, member_id=body.member_id))

    def sync(self, request: Request) -> None:
        body: m.SyncGroupRequest = request.body
        if not self._may_read(request):
            request.reply(m.SyncGroupResponse(error_code=DENIED))
            return

        def reply(response: events.Synced) -> None:
            request.reply(
                m.SyncGroupResponse(
                    error_code=response.error,
                    protocol_type=response.protocol_type,
                    protocol_name=response.protocol,
                    assignment=response.assignment,
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
            # The rebalance that the old coordinator had started is lost. The member must join again and needs no coordinator look-up.
            reply(
                events.Synced(
                    ErrorCode.REBALANCE_IN_PROGRESS if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
                )
            )

    def heartbeat(self, request: Request) -> None:
        body: m.HeartbeatRequest = request.body
        if not self._may_read(request):
            request.reply(m.HeartbeatResponse(error_code=DENIED))
            return

        def reply(response: events.Completed) -> None:
            request.reply(m.HeartbeatResponse(error_code=response.error))

        event = events.Heartbeat(reply, body.member_id, body.group_instance_id, body.generation_id)
        error = self._groups.handle(body.group_id, event)
        if error:
            # As in Kafka, a heartbeat succeeds while the group is being loaded. An error would stop the consumer of aiokafka.
            reply(events.Completed(ErrorCode.NONE if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error))

    def leave(self, request: Request) -> None:
        body: m.LeaveGroupRequest = request.body
        if not self._may_read(request):
            request.reply(m.LeaveGroupResponse(error_code=DENIED))
            return
        many = request.header.api_version >= 3
        members = tuple((x.member_id, x.group_instance_id) for x in body.members) if many else ((body.member_id, None),)

        def reply(response: events.Left | events.Completed) -> None:
            errors = response.errors if isinstance(response, events.Left) else (response.error,) * len(members)
            if many:
                top = response.error if isinstance(response, events.Completed) else 0
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
            reply(events.Completed(error))

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeGroupsRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, body.groups, lambda group_id: group_id
        )
        out = []
        for group_id in dict.fromkeys(authorized):
            group, error = self._groups.find_existing(group_id)
            shown = m.DescribeGroupsResponse.DescribedGroup(
                group_id=group_id, error_code=error, group_state="" if error else State.DEAD.value
            )
            if not error and not isinstance(group, Group) and request.header.api_version >= NOT_FOUND_SINCE:
                shown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                shown.error_message = (
                    f"group {group_id} {'does not exist' if group is None else 'is not a classic group'}"
                )
            if isinstance(group, Group):  # as in Kafka this API does not describe consumer groups of KIP-848
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
            if request.header.api_version >= 3 and body.include_authorized_operations:
                shown.authorized_operations = self._auth.authorized_operations(request, Resource.GROUP, group_id)
            out.append(shown)
        described = m.DescribeGroupsResponse.DescribedGroup
        out += [described(group_id=g, error_code=DENIED, group_state="") for g in unauthorized]
        request.reply(m.DescribeGroupsResponse(groups=out))

    def list(self, request: Request) -> None:
        body: m.ListGroupsRequest = request.body
        states = {s.lower() for s in body.states_filter}
        types = {t.lower() for t in body.types_filter}
        loading = any(not led.loaded for led in self._groups.shards.values())
        groups = [
            m.ListGroupsResponse.ListedGroup(
                group_id=g.group_id,
                protocol_type=(g.protocol_type or "") if isinstance(g, Group) else kind,
                group_state=g.state.value,
                group_type=kind,
            )
            for led in self._groups.shards.values()
            for g in led.groups.values()
            for kind in [_group_type(g)]
            if (not states or g.state.value.lower() in states) and (not types or kind in types)
        ]
        all_groups = self._auth.authorize(request, Operation.DESCRIBE, Resource.CLUSTER)
        groups = self._auth.filter_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, groups, lambda g: None if all_groups else g.group_id
        )
        request.reply(
            m.ListGroupsResponse(
                error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE, groups=groups
            )
        )

    def delete(self, request: Request) -> None:
        body: m.DeleteGroupsRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DELETE, Resource.GROUP, body.groups_names, lambda group_id: group_id
        )
        result = m.DeleteGroupsResponse.DeletableGroupResult
        denied = [result(group_id=g, error_code=DENIED) for g in unauthorized]
        results: dict[str, int] = {}
        names = list(dict.fromkeys(authorized))
        left = len(names)

        def on_result(group_id: str, error: int) -> None:
            nonlocal left
            results[group_id] = error
            left -= 1
            if left == 0:
                responses = [result(group_id=g, error_code=e) for g, e in results.items()]
                request.reply(m.DeleteGroupsResponse(results=responses + denied))

        if not names:
            request.reply(m.DeleteGroupsResponse(results=denied))
        for group_id in names:
            group, error = self._groups.find_existing(group_id)
            if error or group is None:
                on_result(group_id, error or ErrorCode.GROUP_ID_NOT_FOUND)
            elif group.members:
                on_result(group_id, ErrorCode.NON_EMPTY_GROUP)
            elif isinstance(group, ShareGroup):
                self._delete_share_group(group, partial(on_result, group_id))
            else:
                self._groups.tombstones(
                    group_id, group, sorted(group.commits.partitions_with_offset()), True, partial(on_result, group_id)
                )

    def _delete_share_group(self, group: ShareGroup, done: Callable[[int], None]) -> None:
        """The state of the partitions is deleted first: after a failure the group still exists, and the client can delete it again."""

        def on_deleted(error: int) -> None:
            if error or group.members or group.dead:
                done(error or ErrorCode.NON_EMPTY_GROUP)
            else:
                self._groups.tombstones(group.group_id, group, (), True, done)

        self._delete_share_state(group, on_deleted)


def _group_type(group: AnyGroup) -> str:
    if isinstance(group, Group):
        return CLASSIC
    if isinstance(group, StreamsGroup):
        return STREAMS
    return SHARE if isinstance(group, ShareGroup) else CONSUMER
