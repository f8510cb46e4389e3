"""Share groups (KIP-932): ShareGroupHeartbeat and ShareGroupDescribe.

Invariants: a request that would be invalid for every group is rejected here. The group decides about all other requests. A heartbeat is answered when its
effects are replicated. Does not contain: membership, offsets of share groups (`share_offsets`), delivery (`share_fetch`).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.config.share_groups import SHARE_ASSIGNORS
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.records import by_topic
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.coordinator.share_group.events import LEAVE_GROUP_MEMBER_EPOCH, ShareHeartbeat, ShareHeartbeatReply
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode


class ShareGroupsApi:
    def __init__(self, groups: GroupCoordinator, image: Callable[[], Image], auth: AuthHelper) -> None:
        self._groups, self._image, self._auth = groups, image, auth

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.SHARE_GROUP_HEARTBEAT: self.heartbeat, ApiKey.SHARE_GROUP_DESCRIBE: self.describe}

    # -- heartbeat -----------------------------------------------------------------------------------------------------
    def heartbeat(self, request: Request) -> None:
        body: m.ShareGroupHeartbeatRequest = request.body
        response_type = m.ShareGroupHeartbeatResponse

        def reply(response: ShareHeartbeatReply) -> None:
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

        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id):
            request.reply(response_type(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return
        if not self._auth.may_describe_all(request, body.subscribed_topic_names or ()):
            request.reply(response_type(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return
        problem = _problem(body)
        if problem is not None:
            reply(ShareHeartbeatReply(ErrorCode.INVALID_REQUEST, problem))
            return
        names = body.subscribed_topic_names
        event = ShareHeartbeat(
            reply,
            body.member_id,
            body.member_epoch,
            request.client_id,
            f"/{request.client_host}",
            body.rack_id,
            frozenset(names) if names is not None else None,
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(ShareHeartbeatReply(error))

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.ShareGroupDescribeRequest = request.body
        described, denied = m.ShareGroupDescribeResponse.DescribedGroup, ErrorCode.GROUP_AUTHORIZATION_FAILED
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, body.group_ids, lambda group_id: group_id
        )
        shown = []
        for group_id in dict.fromkeys(authorized):
            group, error = self._groups.find_existing(group_id)
            if error or not isinstance(group, ShareGroup):
                text = f"share group {group_id!r} does not exist" if not error else None
                error = error or ErrorCode.GROUP_ID_NOT_FOUND
                shown.append(described(group_id=group_id, error_code=error, error_message=text))
                continue
            found = self._describe_group(group)
            if not self._auth.may_describe_all(
                request, {t.topic_name for x in found.members for t in x.assignment.topic_partitions}
            ):
                found = described(group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif body.include_authorized_operations:
                found.authorized_operations = self._auth.authorized_operations(request, Resource.GROUP, group_id)
            shown.append(found)
        shown += [described(group_id=group_id, error_code=denied) for group_id in unauthorized]
        request.reply(m.ShareGroupDescribeResponse(groups=shown))

    def _describe_group(self, group: ShareGroup) -> m.ShareGroupDescribeResponse.DescribedGroup:
        response_type = m.ShareGroupDescribeResponse
        return response_type.DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=SHARE_ASSIGNORS[0],
            members=[
                response_type.Member(
                    member_id=member_id,
                    rack_id=x.rack_id,
                    member_epoch=group.current_assignments[member_id].epoch,
                    client_id=x.client_id,
                    client_host=x.client_host,
                    subscribed_topic_names=sorted(x.topics),
                    assignment=self._assignment(group.current_assignments[member_id].assigned),
                )
                for member_id, x in group.members.items()
            ],
        )

    def _assignment(self, assigned: Assignment) -> m.ShareGroupDescribeResponse.Assignment:
        """The assignment without deleted topics."""
        r = m.ShareGroupDescribeResponse
        topics = self._image().topics
        return r.Assignment(
            [
                r.TopicPartitions(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=partitions)
                for topic_id, partitions in by_topic(assigned).items()
                if topic_id in topics
            ]
        )


def _problem(body: m.ShareGroupHeartbeatRequest) -> str | None:
    """Return the reason why the request is invalid, or None."""
    if not body.group_id.strip():
        return "GroupId must not be empty"
    if not body.member_id.strip():
        return "MemberId must not be empty"
    if body.rack_id is not None and not body.rack_id.strip():
        return "RackId must not be empty"
    if body.member_epoch < LEAVE_GROUP_MEMBER_EPOCH:
        return "MemberEpoch must be -1 or greater"
    if body.member_epoch == 0 and not body.subscribed_topic_names:
        return "SubscribedTopicNames is required to join"
    return None
