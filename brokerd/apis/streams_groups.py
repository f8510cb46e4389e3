"""Streams groups (KIP-1071): StreamsGroupHeartbeat and StreamsGroupDescribe.

Invariants: a request that would be invalid for every group is rejected here. The group decides about all other requests. A heartbeat is answered when its
effects are replicated. Static membership, regular expressions, warm-up tasks and task offsets are rejected, as in Kafka 4.3. Does not contain: membership,
the creation of internal topics (`streams_internal_topics`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerd.apis.streams_internal_topics import StreamsInternalTopics
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import INTERNAL_TOPICS, topic_name_problem
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.coordinator.streams_group.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    EndpointPartitions,
    HeartbeatStatus,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatReply,
    StreamsMemberMetadata,
    UserEndpoint,
)
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.coordinator.streams_group.records import tasks_of, topology_of
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, Tasks, TaskSet, by_subtopology
from brokerd.coordinator.streams_group.topology import InternalTopic, Topology
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

CREATION_SHOWN_MAX = 1_000
"""Maximum number of characters of a status about the creation of internal topics."""


class StreamsGroupsApi:
    def __init__(
        self,
        groups: GroupCoordinator,
        image: Callable[[], Image],
        auth: AuthHelper,
        internal_topics: StreamsInternalTopics,
        *,
        enabled: bool,
    ) -> None:
        """If `enabled` is False, the broker answers like a Kafka broker that knows the API but has the protocol disabled."""
        self._groups, self._image, self._auth = groups, image, auth
        self._internal_topics, self._enabled = internal_topics, enabled

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.STREAMS_GROUP_HEARTBEAT: self.heartbeat, ApiKey.STREAMS_GROUP_DESCRIBE: self.describe}

    # -- heartbeat -----------------------------------------------------------------------------------------------------
    def heartbeat(self, request: Request) -> None:
        body: m.StreamsGroupHeartbeatRequest = request.body
        response_type = m.StreamsGroupHeartbeatResponse

        def reject(error: int, message: str | None = None) -> None:
            request.reply(response_type(error_code=error, error_message=message))

        def reply(response: StreamsHeartbeatReply) -> None:
            if response.error:
                reject(response.error, response.message)
            else:
                reason = self._internal_topics.create(request, response.missing_topics)
                request.reply(_heartbeat_response(response, reason))

        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id):
            reject(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        if not self._enabled:
            reject(
                ErrorCode.UNSUPPORTED_VERSION, "the streams protocol is not in group.coordinator.rebalance.protocols"
            )
            return
        error, problem = _problem(body)
        if error:
            reject(error, problem)
            return
        topology = topology_of(body.topology) if body.topology is not None else None
        if topology is not None and not self._auth.may_describe_all(request, sorted(_all_topics(topology))):
            reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
        endpoint, tags = body.user_endpoint, body.client_tags
        event = StreamsHeartbeat(
            reply,
            body.member_id,
            body.member_epoch,
            request.client_id,
            f"/{request.client_host}",
            body.rack_id,
            body.rebalance_timeout_ms,
            topology,
            tasks_of(body.active_tasks, body.standby_tasks or (), body.warmup_tasks or ())
            if body.active_tasks is not None
            else None,
            body.process_id,
            UserEndpoint(endpoint.host, endpoint.port) if endpoint is not None else None,
            tuple((t.key, t.value) for t in tags) if tags is not None else None,
            body.shutdown_application,
            body.endpoint_information_epoch,
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reject(error)

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.StreamsGroupDescribeRequest = request.body
        described, denied = m.StreamsGroupDescribeResponse.DescribedGroup, ErrorCode.GROUP_AUTHORIZATION_FAILED
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, body.group_ids, lambda group_id: group_id
        )
        shown = []
        for group_id in dict.fromkeys(authorized):
            group, error = self._groups.find_existing(group_id)
            if error or not isinstance(group, StreamsGroup):
                text = f"streams group {group_id!r} does not exist" if not error else None
                error = error or ErrorCode.GROUP_ID_NOT_FOUND
                shown.append(described(group_id=group_id, error_code=error, error_message=text))
                continue
            topics = _all_topics(group.topology) if group.topology is not None else ()
            if not self._auth.may_describe_all(request, sorted(topics)):
                shown.append(described(group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            found = self._describe_group(group)
            if body.include_authorized_operations:
                found.authorized_operations = self._auth.authorized_operations(request, Resource.GROUP, group_id)
            shown.append(found)
        shown += [described(group_id=group_id, error_code=denied) for group_id in unauthorized]
        request.reply(m.StreamsGroupDescribeResponse(groups=shown))

    def _describe_group(self, group: StreamsGroup) -> m.StreamsGroupDescribeResponse.DescribedGroup:
        return m.StreamsGroupDescribeResponse.DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            topology=self._topology(group.topology) if group.topology is not None else None,
            members=[_described_member(group, member_id, member) for member_id, member in group.members.items()],
        )

    def _topology(self, topology: Topology) -> m.StreamsGroupDescribeResponse.Topology:
        message, image = m.StreamsGroupDescribeResponse, self._image()

        def infos(topics: Iterable[InternalTopic]) -> list[m.StreamsGroupDescribeResponse.TopicInfo]:
            """The topics with the number of partitions that they have, if they exist."""
            shown = []
            for t in topics:
                state = image.topic_named(t.name)
                count = state.partition_count if state is not None else t.partitions
                shown.append(
                    message.TopicInfo(t.name, count, t.replication_factor, [message.KeyValue(*c) for c in t.configs])
                )
            return shown

        return message.Topology(
            topology.epoch,
            [
                message.Subtopology(
                    s.subtopology_id,
                    list(s.source_topics),
                    list(s.repartition_sink_topics),
                    infos(s.changelog_topics),
                    infos(s.repartition_source_topics),
                )
                for s in topology
            ],
        )


def _heartbeat_response(response: StreamsHeartbeatReply, creation: str | None) -> m.StreamsGroupHeartbeatResponse:
    """`creation`: the reason why missing internal topics cannot be created."""
    message = m.StreamsGroupHeartbeatResponse

    def ids(role: TaskSet) -> list[m.StreamsGroupHeartbeatResponse.TaskIds]:
        return [message.TaskIds(s, ps) for s, ps in by_subtopology(role).items()]

    def partitions(by_topic: dict[str, list[int]]) -> list[m.StreamsGroupHeartbeatResponse.TopicPartition]:
        return [message.TopicPartition(topic, numbers) for topic, numbers in sorted(by_topic.items())]

    def endpoint(e: EndpointPartitions) -> m.StreamsGroupHeartbeatResponse.EndpointToPartitions:
        return message.EndpointToPartitions(message.Endpoint(*e.endpoint), partitions(e.active), partitions(e.standby))

    assigned, endpoints = response.assigned, response.endpoints
    return message(
        member_id=response.member_id,
        member_epoch=response.epoch,
        heartbeat_interval_ms=response.heartbeat_ms,
        status=[message.Status(s.code, _detail(s, creation)) for s in response.statuses],
        active_tasks=ids(assigned.active) if assigned is not None else None,
        standby_tasks=ids(assigned.standby) if assigned is not None else None,
        warmup_tasks=ids(assigned.warmup) if assigned is not None else None,
        endpoint_information_epoch=response.endpoint_epoch,
        partitions_by_user_endpoint=[endpoint(e) for e in endpoints] if endpoints is not None else None,
    )


def _detail(status: HeartbeatStatus, creation: str | None) -> str:
    if status.code is not StatusCode.MISSING_INTERNAL_TOPICS or creation is None:
        return status.detail
    return f"{status.detail}; {creation[:CREATION_SHOWN_MAX]}"


def _described_member(
    group: StreamsGroup, member_id: str, member: StreamsMemberMetadata
) -> m.StreamsGroupDescribeResponse.Member:
    message = m.StreamsGroupDescribeResponse

    def assignment(tasks: Tasks) -> m.StreamsGroupDescribeResponse.Assignment:
        return message.Assignment(
            *([message.TaskIds(s, ps) for s, ps in by_subtopology(role).items()] for role in tasks)
        )

    at = group.current_assignments[member_id]
    return message.Member(
        member_id=member_id,
        rack_id=member.rack_id,
        member_epoch=at.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=message.Endpoint(*member.endpoint) if member.endpoint is not None else None,
        client_tags=[message.KeyValue(*tag) for tag in member.client_tags],
        assignment=assignment(at.assigned),
        target_assignment=assignment(group.targets.get(member_id, EMPTY_TASKS)),
    )


def _all_topics(topology: Topology) -> frozenset[str]:
    return topology.required_topics() | {name for s in topology for name in s.repartition_sink_topics}


# -- validation --------------------------------------------------------------------------------------------------------------
def _problem(body: m.StreamsGroupHeartbeatRequest) -> tuple[int, str | None]:
    """The error of a request that no group accepts, and its reason; (NONE, None) for any other request."""
    text = _unsupported_feature(body) or _invalid(body)
    if text is not None:
        return ErrorCode.INVALID_REQUEST, text
    text = _topology_problem(body.topology) if body.topology is not None else None
    return (ErrorCode.NONE, None) if text is None else (ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _unsupported_feature(body: m.StreamsGroupHeartbeatRequest) -> str | None:
    """Features that Kafka 4.3 does not support either."""
    if body.instance_id is not None:
        return "static membership is not supported in streams groups"
    if body.task_offsets is not None or body.task_end_offsets is not None:
        return "task offsets are not supported"
    if body.warmup_tasks:
        return "warm-up tasks are not supported"
    if body.topology is not None and any(s.source_topic_regex for s in body.topology.subtopologies):
        return "regular expressions for source topics are not supported"
    return None


def _invalid(body: m.StreamsGroupHeartbeatRequest) -> str | None:
    if not body.group_id.strip():
        return "GroupId must not be empty"
    if not body.member_id.strip():
        return "MemberId must not be empty"
    if body.rack_id is not None and not body.rack_id.strip():
        return "RackId must not be empty"
    if body.member_epoch < LEAVE_GROUP_MEMBER_EPOCH:
        return "MemberEpoch must be -1 or greater"
    roles = (body.active_tasks, body.standby_tasks, body.warmup_tasks)
    if any(r is None for r in roles) and any(r is not None for r in roles):
        return "ActiveTasks, StandbyTasks and WarmupTasks must be sent together"
    if body.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
        return "Topology must be sent only to join" if body.topology is not None else None
    if body.rebalance_timeout_ms < 0:
        return "RebalanceTimeoutMs is required to join"
    if body.topology is None:
        return "Topology is required to join"
    if any(r is None or r for r in roles):
        return "ActiveTasks, StandbyTasks and WarmupTasks must be empty to join"
    return None


def _topology_problem(topology: m.StreamsGroupHeartbeatRequest.Topology) -> str | None:
    """Return the reason why no group can have this topology, or None."""
    ids = [s.subtopology_id for s in topology.subtopologies]
    if len(set(ids)) < len(ids):
        return "two subtopologies have the same id"
    for subtopology in topology.subtopologies:
        if not subtopology.source_topics and not subtopology.repartition_source_topics:
            return f"subtopology {subtopology.subtopology_id!r} has no source topics"
        for changelog in subtopology.state_changelog_topics:
            if changelog.partitions:
                return f"changelog topic {changelog.name!r} must not have a number of partitions"
        for group in subtopology.copartition_groups:
            sources, repartition = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
            if not all(0 <= i < sources for i in group.source_topics) or not all(
                0 <= i < repartition for i in group.repartition_source_topics
            ):
                return f"subtopology {subtopology.subtopology_id!r} has a copartition group with an unknown topic"
    for name in sorted(_all_topics(topology_of(topology))):
        if name in INTERNAL_TOPICS:
            return f"the internal topic {name} cannot be used in a topology"
        problem = topic_name_problem(name)
        if problem is not None:
            return problem
    return None
