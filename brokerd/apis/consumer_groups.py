"""The consumer group protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

Invariants: a request that would be invalid for every group is rejected here. The group decides about all other requests. A heartbeat is answered when its
effects are replicated. Does not contain: membership.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.events import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.consumer.records import assignment_of, by_topic
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Kafka's member types."""
ID_OF_ITS_OWN_SINCE = 1
"""First version in which members create their ids (KIP-1082)."""


class ConsumerGroupsApi:
    def __init__(
        self, groups: GroupCoordinator, image: Callable[[], Image], auth: AuthHelper, *, enabled: bool
    ) -> None:
        """If `enabled` is False, the broker answers like a Kafka broker that knows the API but has the consumer protocol disabled."""
        self._groups, self._image, self._auth, self._enabled = groups, image, auth, enabled

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe,
        }

    # -- heartbeat -----------------------------------------------------------------------------------------------------
    def heartbeat(self, request: Request) -> None:
        body: m.ConsumerGroupHeartbeatRequest = request.body
        response_type = m.ConsumerGroupHeartbeatResponse

        def reply(response: ConsumerHeartbeatReply) -> None:
            if response.error:
                request.reply(response_type(error_code=response.error, error_message=response.message))
                return
            assignment = None
            if response.assigned is not None:
                topics = by_topic(response.assigned).items()
                assignment = response_type.Assignment(
                    [response_type.TopicPartitions(topic_id=t, partitions=ps) for t, ps in topics]
                )
            request.reply(
                response_type(
                    member_id=response.member_id,
                    member_epoch=response.epoch,
                    heartbeat_interval_ms=response.heartbeat_ms,
                    assignment=assignment,
                )
            )

        denied = self._authorization_error(request)
        if denied:
            request.reply(response_type(error_code=denied))
            return
        if not self._enabled:
            reply(
                ConsumerHeartbeatReply(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "the consumer protocol is not in group.coordinator.rebalance.protocols",
                )
            )
            return
        problem = _problem(body, request.header.api_version)
        if problem is not None:
            reply(ConsumerHeartbeatReply(ErrorCode.INVALID_REQUEST, problem))
            return
        names = body.subscribed_topic_names
        event = ConsumerHeartbeat(
            reply,
            body.member_id or self._groups.generate_member_id("", None),
            body.member_epoch,
            request.client_id,
            f"/{request.client_host}",
            body.instance_id,
            body.rack_id,
            body.rebalance_timeout_ms,
            frozenset(names) if names is not None else None,
            body.subscribed_topic_regex,
            body.server_assignor,
            assignment_of(body.topic_partitions) if body.topic_partitions is not None else None,
            self._auth.describable_topics(request),
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(ConsumerHeartbeatReply(error))

    def _authorization_error(self, request: Request) -> ErrorCode:
        """The authorization error of a heartbeat, or NONE. A heartbeat requires READ on the group and DESCRIBE on each topic that the member
        subscribes to by name."""
        body: m.ConsumerGroupHeartbeatRequest = request.body
        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if not self._auth.may_describe_all(request, body.subscribed_topic_names or ()):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.ConsumerGroupDescribeRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, body.group_ids, lambda group_id: group_id
        )
        shown = []
        for group_id in dict.fromkeys(authorized):
            group, error = self._groups.find_existing(group_id)
            if isinstance(group, ConsumerGroupMachine) and not error:
                shown.append(self._as_authorized(request, self._describe_group(group)))
                continue
            text = f"consumer group {group_id!r} does not exist" if not error else None
            rejected = m.ConsumerGroupDescribeResponse.DescribedGroup(
                group_id=group_id, error_code=error or ErrorCode.GROUP_ID_NOT_FOUND, error_message=text
            )
            shown.append(rejected)
        described, denied = m.ConsumerGroupDescribeResponse.DescribedGroup, ErrorCode.GROUP_AUTHORIZATION_FAILED
        shown += [described(group_id=group_id, error_code=denied) for group_id in unauthorized]
        request.reply(m.ConsumerGroupDescribeResponse(groups=shown))

    def _as_authorized(
        self, request: Request, group: m.ConsumerGroupDescribeResponse.DescribedGroup
    ) -> m.ConsumerGroupDescribeResponse.DescribedGroup:
        """The group, or an error if the client may not describe each topic that is assigned in it."""
        topics = {
            t.topic_name for x in group.members for y in (x.assignment, x.target_assignment) for t in y.topic_partitions
        }
        if not self._auth.may_describe_all(request, topics):
            return m.ConsumerGroupDescribeResponse.DescribedGroup(
                group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
        if request.body.include_authorized_operations:
            group.authorized_operations = self._auth.authorized_operations(request, Resource.GROUP, group.group_id)
        return group

    def _describe_group(self, group: ConsumerGroupMachine) -> m.ConsumerGroupDescribeResponse.DescribedGroup:
        response_type = m.ConsumerGroupDescribeResponse
        return response_type.DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.assignor(),
            members=[
                response_type.Member(
                    member_id=member_id,
                    instance_id=profile.instance_id,
                    rack_id=profile.rack_id,
                    member_epoch=group.current_assignments[member_id].epoch,
                    client_id=profile.client_id,
                    client_host=profile.client_host,
                    subscribed_topic_names=sorted(profile.topics),
                    subscribed_topic_regex=profile.pattern,
                    assignment=self._assignment(group.current_assignments[member_id].assigned),
                    target_assignment=self._assignment(group.targets.get(member_id, frozenset())),
                    member_type=CONSUMER_MEMBER if profile.classic is None else CLASSIC_MEMBER,
                )
                for member_id, profile in group.members.items()
            ],
        )

    def _assignment(self, share: Assignment) -> m.ConsumerGroupDescribeResponse.Assignment:
        """The assignment without deleted topics."""
        r = m.ConsumerGroupDescribeResponse
        topics = self._image().topics
        return r.Assignment(
            [
                r.TopicPartitions(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=partitions)
                for topic_id, partitions in by_topic(share).items()
                if topic_id in topics
            ]
        )


def _problem(body: m.ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return the reason why the request is invalid, or None."""
    if not body.group_id:
        return "GroupId must not be empty"
    if body.instance_id is not None and not body.instance_id.strip():
        return "InstanceId must not be empty"
    if body.rack_id is not None and not body.rack_id.strip():
        return "RackId must not be empty"
    if body.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return "MemberEpoch must be -2 or greater"
    if not body.member_id and (version >= ID_OF_ITS_OWN_SINCE or body.member_epoch != JOIN_GROUP_MEMBER_EPOCH):
        return "MemberId must not be empty"
    if body.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and body.instance_id is None:
        return "MemberEpoch -2 needs an InstanceId"
    if body.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        if body.rebalance_timeout_ms < 0:
            return "RebalanceTimeoutMs is required to join"
        if body.topic_partitions is None or body.topic_partitions:
            return "TopicPartitions must be empty to join"
        if not body.subscribed_topic_names and body.subscribed_topic_regex is None:
            return "SubscribedTopicNames or SubscribedTopicRegex is required to join"
    return None
