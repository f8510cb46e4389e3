"""OffsetCommit, OffsetFetch and OffsetDelete.

Invariant: a request that names a member is answered as that member's epoch allows. Does not contain: transactions
(`transaction_participants`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from brokerd.apis.offset_commits import all_failed, build_topic_responses, no_partition_exists, offsets_of
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.coordinator import offset_expiration
from brokerd.coordinator.classic import events
from brokerd.coordinator.classic.events import Offset
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer.consumer_protocol import PROTOCOL_TYPE
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import NO_UUID

NO_GROUP_SINCE = 9
"""First version of OffsetCommit whose clients know GROUP_ID_NOT_FOUND."""
FIRST_WITH_GROUPS = 8
"""First version of OffsetFetch that names several groups (KIP-709)."""
FIRST_WITH_TOPIC_IDS = 10
"""First version of OffsetCommit and OffsetFetch that has topic ids instead of names (KIP-848)."""
NOTHING = Offset(-1, -1, "", 0)
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
Found = dict[str, list[tuple[int, Offset, int]]]
"""{topic: (partition, offset, error)}"""


T = TypeVar("T", m.OffsetCommitRequest.OffsetCommitRequestTopic, m.OffsetFetchRequest.OffsetFetchRequestTopics)
"""A topic of a request. A request with topic ids has an empty name."""


class GroupOffsetsApi:
    def __init__(
        self, groups: GroupCoordinator, clock: Callable[[], Now], auth: AuthHelper, image: Callable[[], Image]
    ) -> None:
        self._groups, self._clock, self._auth, self._image = groups, clock, auth, image

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.OFFSET_FETCH: self.fetch,
            ApiKey.OFFSET_DELETE: self.delete_offsets,
        }

    def commit(self, request: Request) -> None:
        body: m.OffsetCommitRequest = request.body
        response_type = m.OffsetCommitResponse
        shapes = _commit_topic, response_type.OffsetCommitResponsePartition
        if not self._auth.authorize(request, Operation.READ, Resource.GROUP, body.group_id):
            request.reply(response_type(topics=all_failed(body.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED, *shapes)))
            return
        named, unknown = self._with_names(request, body.topics)
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.READ, Resource.TOPIC, named, lambda t: t.name
        )
        failed = all_failed(unauthorized, ErrorCode.TOPIC_AUTHORIZATION_FAILED, *shapes)
        failed += all_failed(unknown, ErrorCode.UNKNOWN_TOPIC_ID, *shapes)
        if failed and not authorized:
            request.reply(response_type(topics=failed))
            return
        offsets, rejected = offsets_of(authorized, self._groups, self._clock().wall_ms)

        def reply(response: events.Completed) -> None:
            request.reply(response_type(topics=build_topic_responses(authorized, response, rejected, *shapes) + failed))

        if no_partition_exists(offsets, rejected):
            reply(events.Completed(ErrorCode.NONE))
            return
        event = events.Commit(
            reply, body.member_id, body.group_instance_id, body.generation_id_or_member_epoch, offsets
        )
        error = self._groups.handle(body.group_id, event)
        if error == ErrorCode.GROUP_ID_NOT_FOUND and request.header.api_version < NO_GROUP_SINCE:
            error = ErrorCode.ILLEGAL_GENERATION
        if error:
            reply(events.Completed(error))

    def _with_names(self, request: Request, topics: Iterable[T]) -> tuple[list[T], list[T]]:
        """(topics with names, topics with an unknown id). A topic that was deleted and created again has another id."""
        if request.header.api_version < FIRST_WITH_TOPIC_IDS:
            return list(topics), []
        image, named, unknown = self._image(), list[T](), list[T]()
        for topic in topics:
            state = image.topics.get(topic.topic_id)
            if state is None or not state.ready:
                unknown.append(topic)
            else:
                named.append(replace(topic, name=state.name))
        return named, unknown

    def fetch(self, request: Request) -> None:
        if request.header.api_version >= FIRST_WITH_GROUPS:
            self._fetch_groups(request)
        else:
            self._fetch_group(request)

    def _fetch_groups(self, request: Request) -> None:
        body: m.OffsetFetchRequest = request.body
        response_type = m.OffsetFetchResponse
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, body.groups, lambda g: g.group_id
        )
        once = {g.group_id: g for g in authorized}.values()
        groups = [self._offsets_of_group(request, requested, stable=body.require_stable) for requested in once]
        groups += [
            response_type.OffsetFetchResponseGroup(group_id=g.group_id, error_code=NO_GROUP) for g in unauthorized
        ]
        request.reply(response_type(groups=groups))

    def _offsets_of_group(
        self, request: Request, requested: m.OffsetFetchRequest.OffsetFetchRequestGroup, *, stable: bool
    ) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
        """The topics of the response have ids if the request has ids. A request by ids without topics gets only topics that exist."""
        named, unknown = self._with_names(request, requested.topics or ())
        named_topics = None if requested.topics is None else {t.name: t.partition_indexes for t in named}
        offsets, error = self._find_offsets(
            requested.group_id, named_topics, stable, requested.member_id, requested.member_epoch
        )
        group = m.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=requested.group_id, error_code=error)
        if error:
            return group
        offsets = self._hide_unauthorized(request, offsets, named=named_topics is not None)
        image, by_id = self._image(), request.header.api_version >= FIRST_WITH_TOPIC_IDS
        for name, partition_offsets in offsets.items():
            state = image.topic_named(name)
            if not by_id:
                group.topics.append(_fetched_topic(name, NO_UUID, partition_offsets))
            elif state is not None and state.ready:
                group.topics.append(_fetched_topic(name, state.topic_id, partition_offsets))
        no_id = int(ErrorCode.UNKNOWN_TOPIC_ID)
        group.topics += [
            _fetched_topic("", t.topic_id, [(i, NOTHING, no_id) for i in t.partition_indexes]) for t in unknown
        ]
        return group

    def _fetch_group(self, request: Request) -> None:
        """OffsetFetch before version 8: one group, and errors per partition."""
        body: m.OffsetFetchRequest = request.body
        response_type = m.OffsetFetchResponse
        if not self._auth.authorize(request, Operation.DESCRIBE, Resource.GROUP, body.group_id):
            request.reply(_unauthorized_fetch_response(body))
            return
        named_topics = None if body.topics is None else {t.name: t.partition_indexes for t in body.topics}
        offsets, error = self._find_offsets(body.group_id, named_topics, body.require_stable)
        offsets = {
            name: [(i, o, error or unstable) for i, o, unstable in partition_offsets]
            for name, partition_offsets in offsets.items()
        }
        offsets = self._hide_unauthorized(request, offsets, named=named_topics is not None)
        request.reply(
            response_type(
                error_code=error,
                topics=[
                    response_type.OffsetFetchResponseTopic(
                        name=name,
                        partitions=[
                            response_type.OffsetFetchResponsePartition(
                                partition_index=i,
                                committed_offset=o.offset,
                                committed_leader_epoch=o.leader_epoch,
                                metadata=o.metadata,
                                error_code=failed,
                            )
                            for i, o, failed in partition_offsets
                        ],
                    )
                    for name, partition_offsets in offsets.items()
                ],
            )
        )

    def _hide_unauthorized(self, request: Request, offsets: Found, *, named: bool) -> Found:
        """Topics that the client may not describe have an error, or are omitted if the request did not name them."""
        _, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TOPIC, offsets, lambda name: name
        )
        hidden = {
            name: [(i, NOTHING, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for i, _, _ in offsets[name]]
            for name in unauthorized
        }
        return {name: hidden.get(name, parts) for name, parts in offsets.items() if named or name not in hidden}

    def _find_offsets(
        self,
        group_id: str,
        named_topics: dict[str, list[int]] | None,
        stable: bool,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> tuple[Found, int]:
        """(offsets, error of the group). `named_topics` None: all committed offsets. Offset -1: nothing committed."""
        group, error = self._groups.find_existing(group_id)
        if isinstance(group, ConsumerGroupMachine | StreamsGroup) and (member_id is not None or epoch >= 0):
            error = group.epoch_error(member_id or "", epoch)
        offsets = group.commits.offsets if group is not None else {}
        unstable = group.commits.unstable() if stable and group is not None else frozenset()
        if named_topics is None:
            named_topics = {}
            for name, index in sorted(offsets):
                named_topics.setdefault(name, []).append(index)
        return {
            name: [
                (i, NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if (name, i) in unstable
                else (i, offsets.get((name, i), NOTHING), 0)
                for i in indexes
            ]
            for name, indexes in named_topics.items()
        }, error

    def delete_offsets(self, request: Request) -> None:
        body: m.OffsetDeleteRequest = request.body
        response_type = m.OffsetDeleteResponse
        if not self._auth.authorize(request, Operation.DELETE, Resource.GROUP, body.group_id):
            request.reply(response_type(error_code=NO_GROUP))
            return
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.READ, Resource.TOPIC, body.topics, lambda t: t.name
        )
        no_topic = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denied = [_topic_result(t, no_topic) for t in unauthorized]
        group, error = self._groups.find_existing(body.group_id)
        if not error and (group is None or isinstance(group, ShareGroup)):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        if error or group is None:
            request.reply(response_type(error_code=error, topics=denied))
            return
        read = offset_expiration.subscribed_topics(group)
        names = {t.name for t in authorized}
        if read is None and isinstance(group, Group) and group.protocol_type != PROTOCOL_TYPE:
            request.reply(response_type(error_code=ErrorCode.NON_EMPTY_GROUP, topics=denied))
            return
        keys = [(t.name, p.partition_index) for t in authorized for p in t.partitions]
        busy = names if read is None else names & read

        def done(error: int) -> None:
            subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            topics = [_topic_result(t, subscribed if t.name in busy else ErrorCode.NONE) for t in authorized]
            request.reply(response_type(error_code=error, topics=topics + denied))

        known = group.commits.partitions_with_offset()
        gone = [k for k in dict.fromkeys(keys) if k in known and k[0] not in busy]
        self._groups.tombstones(body.group_id, group, gone, False, done)


def _commit_topic(
    topic: m.OffsetCommitRequest.OffsetCommitRequestTopic,
    partitions: list[m.OffsetCommitResponse.OffsetCommitResponsePartition],
) -> m.OffsetCommitResponse.OffsetCommitResponseTopic:
    return m.OffsetCommitResponse.OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _fetched_topic(
    name: str, topic_id: UUID, offsets: Iterable[tuple[int, Offset, int]]
) -> m.OffsetFetchResponse.OffsetFetchResponseTopics:
    """`offsets`: (partition, committed offset, error)."""
    return m.OffsetFetchResponse.OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            m.OffsetFetchResponse.OffsetFetchResponsePartitions(
                partition_index=i,
                committed_offset=o.offset,
                committed_leader_epoch=o.leader_epoch,
                metadata=o.metadata,
                error_code=error,
            )
            for i, o, error in offsets
        ],
    )


def _unauthorized_fetch_response(body: m.OffsetFetchRequest) -> m.OffsetFetchResponse:
    """The response of the versions before 8 if the client may not describe the group."""
    r = m.OffsetFetchResponse
    part = r.OffsetFetchResponsePartition
    return r(
        error_code=NO_GROUP,
        topics=[
            r.OffsetFetchResponseTopic(
                name=t.name,
                partitions=[
                    part(
                        partition_index=i,
                        committed_offset=-1,
                        committed_leader_epoch=-1,
                        metadata="",
                        error_code=NO_GROUP,
                    )
                    for i in t.partition_indexes
                ],
            )
            for t in body.topics or ()
        ],
    )


def _topic_result(
    topic: m.OffsetDeleteRequest.OffsetDeleteRequestTopic, error: int
) -> m.OffsetDeleteResponse.OffsetDeleteResponseTopic:
    part = m.OffsetDeleteResponse.OffsetDeleteResponsePartition
    return m.OffsetDeleteResponse.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[part(partition_index=p.partition_index, error_code=error) for p in topic.partitions],
    )
