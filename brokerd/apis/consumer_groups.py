"""The doors of the new group protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

Laws: what no member of any group could say is refused here; the rest is the group's to judge. A heartbeat is
answered when what it rests on is replicated. Must not come in: membership.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.cluster.image import Image
from brokerd.coordinator.assignors import Share
from brokerd.coordinator.consumer_events import (
    GROUP_ID_NOT_FOUND,
    INVALID_REQUEST,
    JOINS,
    LEAVES_FOR_A_WHILE,
    Beat,
    Beaten,
)
from brokerd.coordinator.consumer_group import ConsumerGroup
from brokerd.coordinator.consumer_records import by_topic, share_of
from brokerd.coordinator.groups import Groups
from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Kafka's member types."""
ID_OF_ITS_OWN_SINCE = 1
"""From this version on members draw their ids themselves (KIP-1082)."""


class ConsumerGroupsApi:
    def __init__(self, groups: Groups, image: Callable[[], Image], *, enabled: bool) -> None:
        """`enabled`: not to be so is to be a broker that knows the API and serves no such group."""
        self._groups, self._image, self._enabled = groups, image, enabled

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe,
        }

    # -- heartbeat -----------------------------------------------------------------------------------------------------
    def heartbeat(self, request: Request) -> None:
        body: m.ConsumerGroupHeartbeatRequest = request.body
        r = m.ConsumerGroupHeartbeatResponse

        def reply(answer: Any) -> None:
            assert isinstance(answer, Beaten)
            if answer.error:
                request.reply(r(error_code=answer.error, error_message=answer.message))
                return
            assignment = None
            if answer.assigned is not None:
                topics = by_topic(answer.assigned).items()
                assignment = r.Assignment([r.TopicPartitions(topic_id=t, partitions=ps) for t, ps in topics])
            request.reply(
                r(
                    member_id=answer.member_id, member_epoch=answer.epoch, heartbeat_interval_ms=answer.heartbeat_ms,
                    assignment=assignment,
                )
            )  # fmt: skip

        if not self._enabled:
            reply(
                Beaten(ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols leaves this protocol out")
            )
            return
        problem = _problem(body, request.header.api_version)
        if problem is not None:
            reply(Beaten(INVALID_REQUEST, problem))
            return
        names = body.subscribed_topic_names
        event = Beat(
            reply,
            body.member_id or self._groups.draw_member_id("", None),
            body.member_epoch,
            request.client_id,
            f"/{request.client_host}",
            body.instance_id,
            body.rack_id,
            body.rebalance_timeout_ms,
            frozenset(names) if names is not None else None,
            body.subscribed_topic_regex,
            body.server_assignor,
            share_of(body.topic_partitions) if body.topic_partitions is not None else None,
            request.sees,
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(Beaten(error))

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.ConsumerGroupDescribeRequest = request.body
        shown = []
        for group_id in dict.fromkeys(body.group_ids):
            group, error = self._groups.existing(group_id)
            if isinstance(group, ConsumerGroup) and not error:
                shown.append(self._described(group))
                continue
            told = f"there is no consumer group {group_id!r}" if not error else None
            refused = m.ConsumerGroupDescribeResponse.DescribedGroup(
                group_id=group_id, error_code=error or GROUP_ID_NOT_FOUND, error_message=told
            )
            shown.append(refused)
        request.reply(m.ConsumerGroupDescribeResponse(groups=shown))

    def _described(self, group: ConsumerGroup) -> m.ConsumerGroupDescribeResponse.DescribedGroup:
        r = m.ConsumerGroupDescribeResponse
        return r.DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.assignor(),
            members=[
                r.Member(
                    member_id=member_id,
                    instance_id=profile.instance_id,
                    rack_id=profile.rack_id,
                    member_epoch=group.standings[member_id].epoch,
                    client_id=profile.client_id,
                    client_host=profile.client_host,
                    subscribed_topic_names=sorted(profile.topics),
                    subscribed_topic_regex=profile.pattern,
                    assignment=self._assignment(group.standings[member_id].assigned),
                    target_assignment=self._assignment(group.targets.get(member_id, frozenset())),
                    member_type=CONSUMER_MEMBER if profile.classic is None else CLASSIC_MEMBER,
                )
                for member_id, profile in group.members.items()
            ],
        )

    def _assignment(self, share: Share) -> m.ConsumerGroupDescribeResponse.Assignment:
        """Without topics that are no more."""
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
    """Why nobody could say this, or None."""
    if not body.group_id:
        return "a heartbeat names a group"
    if body.instance_id is not None and not body.instance_id.strip():
        return "an instance id has at least one character"
    if body.rack_id is not None and not body.rack_id.strip():
        return "a rack id has at least one character"
    if body.member_epoch < LEAVES_FOR_A_WHILE:
        return "a member epoch is -2 at least"
    if not body.member_id and (version >= ID_OF_ITS_OWN_SINCE or body.member_epoch != JOINS):
        return "a heartbeat names a member"
    if body.member_epoch == LEAVES_FOR_A_WHILE and body.instance_id is None:
        return "only a member with an instance id leaves with -2"
    if body.member_epoch == JOINS:
        if body.rebalance_timeout_ms < 0:
            return "who joins says its rebalance timeout"
        if body.topic_partitions is None or body.topic_partitions:
            return "who joins owns nothing, and says so"
        if not body.subscribed_topic_names and body.subscribed_topic_regex is None:
            return "who joins says what it is subscribed to"
    return None
