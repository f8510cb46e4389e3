"""Offsets of share groups: DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets, and the end of a share group (KIP-932).

Invariants: offsets are changed only while the group has no members. A change starts a new state epoch, so a leader with the old state is fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicState
from brokerd.coordinator.classic.events import Completed
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.coordinator.share_group.events import OffsetsAltered, StateDeleted
from brokerd.coordinator.share_group.group import ShareGroup
from brokerd.coordinator.share_state.persister import SendRequest, SharePersister, request_all
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import NO_START, ShareState
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

LIST_OFFSETS_VERSION = 7
"""Version of ListOffsets between brokers."""
LATEST = -1
NO_LAG = -1
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
Described = m.DescribeShareGroupOffsetsResponse


class ShareOffsetsApi:
    def __init__(
        self,
        groups: GroupCoordinator,
        persister: SharePersister,
        send: SendRequest,
        image: Callable[[], Image],
        auth: AuthHelper,
    ) -> None:
        """`send` sends ListOffsets to the leaders of partitions."""
        self._groups, self._persister, self._send = groups, persister, send
        self._image, self._auth = image, auth

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: self.describe,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS: self.alter,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS: self.delete,
        }

    def _group(self, group_id: str) -> tuple[ShareGroup | None, int]:
        group, error = self._groups.find_existing(group_id)
        if error:
            return None, error
        if not isinstance(group, ShareGroup):
            return None, ErrorCode.GROUP_ID_NOT_FOUND
        return group, ErrorCode.NONE

    # -- describe ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeShareGroupOffsetsRequest = request.body
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.GROUP, body.groups, lambda g: g.group_id
        )
        shape = Described.DescribeShareGroupOffsetsResponseGroup
        out = [shape(group_id=g.group_id, error_code=DENIED) for g in unauthorized]
        left = len(authorized)

        def on_part(group: Described.DescribeShareGroupOffsetsResponseGroup) -> None:
            nonlocal left
            out.append(group)
            left -= 1
            if not left:
                request.reply(Described(groups=out))

        if not left:
            request.reply(Described(groups=out))
        for requested in authorized:
            group, error = self._group(requested.group_id)
            if group is None:
                text = (
                    f"share group {requested.group_id!r} does not exist"
                    if error == ErrorCode.GROUP_ID_NOT_FOUND
                    else None
                )
                on_part(shape(group_id=requested.group_id, error_code=error, error_message=text))
            else:
                self._describe(request, group, requested.topics, on_part)

    def _describe(
        self,
        request: Request,
        group: ShareGroup,
        topics: list[m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None,
        done: Callable[[Described.DescribeShareGroupOffsetsResponseGroup], None],
    ) -> None:
        topic_shape = Described.DescribeShareGroupOffsetsResponseTopic
        part_shape = Described.DescribeShareGroupOffsetsResponsePartition
        known = dict(group.state_partitions.initialized.values())
        partitions_by_topic = {name: sorted(ps) for name, ps in known.items()}
        if topics is not None:
            partitions_by_topic = {t.topic_name: list(dict.fromkeys(t.partitions)) for t in topics}
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TOPIC, partitions_by_topic, lambda name: name
        )
        response = Described.DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
        waiting: list[tuple[SharePartitionKey, Described.DescribeShareGroupOffsetsResponsePartition, str]] = []
        for name in authorized:
            topic = self._image().topic_named(name)
            parts = [
                part_shape(partition_index=p, start_offset=NO_START, leader_epoch=0) for p in partitions_by_topic[name]
            ]
            if topic is None:
                for part in parts:
                    part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            shown = topic_shape(topic_name=name, partitions=parts)
            response.topics.append(shown)
            if topic is not None:
                shown.topic_id = topic.topic_id
                waiting += [
                    (SharePartitionKey(group.group_id, topic.topic_id, part.partition_index), part, name)
                    for part in parts
                    if part.partition_index in known.get(name, ())
                ]
        if topics is not None:  # as in Kafka, a request for all topics omits unauthorized ones
            for name in unauthorized:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                parts = [part_shape(partition_index=p, error_code=error) for p in partitions_by_topic[name]]
                response.topics.append(topic_shape(topic_name=name, partitions=parts))
        left = len(waiting)

        def on_part() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                done(response)

        if not waiting:
            done(response)
        for place, part, name in waiting:
            self._persister.summary(place, partial(self._on_summary, place, part, name, on_part))

    def _on_summary(
        self,
        place: SharePartitionKey,
        part: Described.DescribeShareGroupOffsetsResponsePartition,
        name: str,
        done: Callable[[], None],
        error: int,
        state: ShareState | None,
    ) -> None:
        if state is None:
            part.error_code = error
            done()
            return
        part.start_offset, part.leader_epoch = state.start, max(0, state.leader_epoch)
        if state.start == NO_START or state.complete_count < 0:
            done()
            return

        def on_end_offset(end: int) -> None:
            part.lag = max(0, end - state.start - state.complete_count) if end >= 0 else NO_LAG
            done()

        self._log_end(place.topic_id, name, place.partition, on_end_offset)

    def _log_end(self, topic_id: UUID, name: str, partition: int, on_end_offset: Callable[[int], None]) -> None:
        """The end offset of a partition for consumers, or -1."""
        topic = self._image().topics.get(topic_id)
        at = topic.partitions.get(partition) if topic is not None else None
        if at is None or at.leader < 0:
            on_end_offset(-1)
            return
        q = m.ListOffsetsRequest
        part = q.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=LATEST)
        body = q(replica_id=-1, isolation_level=0, topics=[q.ListOffsetsTopic(name=name, partitions=[part])])

        def on_response(response: m.ListOffsetsResponse | None) -> None:
            result = response.topics[0].partitions[0] if response is not None else None
            on_end_offset(result.offset if result is not None and not result.error_code else -1)

        self._send(at.leader, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body, on_response)

    # -- alter ---------------------------------------------------------------------------------------------------------
    def alter(self, request: Request) -> None:
        body: m.AlterShareGroupOffsetsRequest = request.body
        response_type = m.AlterShareGroupOffsetsResponse
        group, error = self._find_empty_group(request, Operation.READ)
        if group is None:
            request.reply(response_type(error_code=error, error_message=_error_message(error, body.group_id)))
            return
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.READ, Resource.TOPIC, body.topics, lambda t: t.topic_name
        )
        out: dict[str, m.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = {}
        starts: dict[SharePartitionKey, int] = {}
        parts: dict[SharePartitionKey, m.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = {}
        altered: dict[UUID, tuple[str, frozenset[int]]] = {}
        for topic in [*authorized, *unauthorized]:
            known = self._image().topic_named(topic.topic_name)
            shown = out[topic.topic_name] = response_type.AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name
            )
            if known is not None and topic not in unauthorized:
                shown.topic_id = known.topic_id
            for partition in topic.partitions:
                part = response_type.AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
                shown.partitions.append(part)
                if topic in unauthorized:
                    part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif known is None or partition.partition_index not in known.partitions:
                    part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    place = SharePartitionKey(body.group_id, known.topic_id, partition.partition_index)
                    starts[place], parts[place] = partition.start_offset, part
                    altered[known.topic_id] = _add_partition(
                        altered.get(known.topic_id), known, partition.partition_index
                    )

        def start(epoch: int, place: SharePartitionKey, done: Callable[[int], None]) -> None:
            self._persister.initialize(place, epoch, starts[place], done)

        def on_initialized(errors: dict[SharePartitionKey, int]) -> None:
            for place, error in errors.items():
                parts[place].error_code = error
            request.reply(response_type(responses=list(out.values())))

        def on_recorded(response: Completed) -> None:
            if response.error:
                request.reply(response_type(error_code=response.error))
            else:
                request_all(starts, partial(start, group.epoch), on_initialized)

        # The new group epoch is written first. It is used as the state epoch, which must not repeat.
        error = self._groups.handle(body.group_id, OffsetsAltered(on_recorded, altered))
        if error:
            request.reply(response_type(error_code=error))

    # -- delete --------------------------------------------------------------------------------------------------------
    def delete(self, request: Request) -> None:
        body: m.DeleteShareGroupOffsetsRequest = request.body
        response_type = m.DeleteShareGroupOffsetsResponse
        group, error = self._find_empty_group(request, Operation.DELETE)
        if group is None:
            request.reply(response_type(error_code=error, error_message=_error_message(error, body.group_id)))
            return
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.READ, Resource.TOPIC, body.topics, lambda t: t.topic_name
        )
        shape = response_type.DeleteShareGroupOffsetsResponseTopic
        out = [shape(topic_name=t.topic_name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for t in unauthorized]
        by_name = {name: (topic_id, ps) for topic_id, (name, ps) in group.state_partitions.initialized.items()}
        found: dict[UUID, m.DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = {}
        places: list[SharePartitionKey] = []
        for topic in authorized:
            at = by_name.get(topic.topic_name)
            if at is None:
                text = f"the group has no offsets of topic {topic.topic_name!r}"
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                out.append(shape(topic_name=topic.topic_name, error_code=error, error_message=text))
                continue
            found[at[0]] = shape(topic_name=topic.topic_name, topic_id=at[0])
            places += [SharePartitionKey(body.group_id, at[0], p) for p in sorted(at[1])]

        def reply(error: int) -> None:
            for x in found.values():
                x.error_code = x.error_code or error
            request.reply(response_type(responses=[*out, *found.values()]))

        def on_deleted(errors: dict[SharePartitionKey, int]) -> None:
            for place, error in errors.items():
                found[place.topic_id].error_code = found[place.topic_id].error_code or error
            gone = frozenset(t for t, x in found.items() if not x.error_code)
            error = self._groups.handle(body.group_id, StateDeleted(lambda r: reply(r.error), gone))
            if error:
                reply(error)

        request_all(places, self._persister.delete, on_deleted)

    def delete_all(self, group: ShareGroup, done: Callable[[int], None]) -> None:
        """Delete the state of all partitions of the group, and call `done(error)`."""
        topics = group.state_partitions.initialized
        places = [SharePartitionKey(group.group_id, t, p) for t, (_, ps) in topics.items() for p in sorted(ps)]
        request_all(places, self._persister.delete, lambda errors: done(next((e for e in errors.values() if e), 0)))

    def _find_empty_group(self, request: Request, operation: Operation) -> tuple[ShareGroup | None, int]:
        """(share group without members, or None; error code)."""
        group_id = request.body.group_id
        if not self._auth.authorize(request, operation, Resource.GROUP, group_id):
            return None, DENIED
        group, error = self._group(group_id)
        if group is not None and group.members:
            return None, ErrorCode.NON_EMPTY_GROUP
        return group, error


def _error_message(error: int, group_id: str) -> str | None:
    if error == ErrorCode.NON_EMPTY_GROUP:
        return f"share group {group_id!r} has members: stop them first"
    return f"share group {group_id!r} does not exist" if error == ErrorCode.GROUP_ID_NOT_FOUND else None


def _add_partition(
    partitions: tuple[str, frozenset[int]] | None, topic: TopicState, partition: int
) -> tuple[str, frozenset[int]]:
    return topic.name, (partitions[1] if partitions is not None else frozenset()) | {partition}
