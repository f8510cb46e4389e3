"""The groups' doors: parse, ask `groups`, shape the answer. Each waits on one promise at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Now
from brokerd.coordinator import events
from brokerd.coordinator.events import Offset, State, TopicIndex
from brokerd.coordinator.groups import (
    GROUP_ID_NOT_FOUND,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    OFFSET_METADATA_TOO_LARGE,
    Groups,
)
from brokerd.coordinator.leading import COORDINATOR_NOT_AVAILABLE
from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

GROUP_KEY, TRANSACTION_KEY = 0, 1
COORDINATED_BY = {GROUP_KEY: GROUP_OFFSETS_TOPIC, TRANSACTION_KEY: TRANSACTION_STATE_TOPIC}
AUTHORIZED_OPERATIONS_UNKNOWN = -(2**31)
GROUP_SUBSCRIBED_TO_TOPIC = 86


class GroupsApi:
    """`find_leader(topic, key, listener)` gives (broker id, host, port) of the coordinator whose partition of `topic` has the group or the
    transactional id `key`, or None while there is none."""

    def __init__(
        self,
        groups: Groups,
        clock: Callable[[], Now],
        find_leader: Callable[[str, str, str], tuple[int, str, int] | None],
        *,
        session_ms_min: int,
        session_ms_max: int,
    ) -> None:
        self._groups, self._clock, self._find_leader = groups, clock, find_leader
        self._session_ms_min, self._session_ms_max = session_ms_min, session_ms_max

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.FIND_COORDINATOR: self.find_coordinator,
            ApiKey.JOIN_GROUP: self.join,
            ApiKey.SYNC_GROUP: self.sync,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: self.leave,
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.OFFSET_FETCH: self.fetch,
            ApiKey.DESCRIBE_GROUPS: self.describe,
            ApiKey.LIST_GROUPS: self.list,
            ApiKey.DELETE_GROUPS: self.delete,
            ApiKey.OFFSET_DELETE: self.delete_offsets,
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
            reply(events.Synced(error))

    def heartbeat(self, request: Request) -> None:
        body: m.HeartbeatRequest = request.body

        def reply(answer: Any) -> None:
            request.reply(m.HeartbeatResponse(error_code=answer.error))

        event = events.Heartbeat(reply, body.member_id, body.group_instance_id, body.generation_id)
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(events.Answered(error))

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

    # -- offsets -----------------------------------------------------------------------------------------------------------
    def commit(self, request: Request) -> None:
        body: m.OffsetCommitRequest = request.body
        wall = self._clock().wall_ms
        offsets: dict[TopicIndex, Offset] = {}
        refused: set[TopicIndex] = set()
        for topic in body.topics:
            for p in topic.partitions:
                text = p.committed_metadata or ""
                if len(text.encode()) > self._groups.metadata_bytes_max:
                    refused.add((topic.name, p.partition_index))
                else:
                    offsets[topic.name, p.partition_index] = Offset(
                        p.committed_offset, p.committed_leader_epoch, text, wall
                    )

        def reply(answer: Any) -> None:
            request.reply(
                m.OffsetCommitResponse(
                    topics=[
                        m.OffsetCommitResponse.OffsetCommitResponseTopic(
                            name=topic.name,
                            partitions=[
                                m.OffsetCommitResponse.OffsetCommitResponsePartition(
                                    partition_index=p.partition_index,
                                    error_code=OFFSET_METADATA_TOO_LARGE
                                    if (topic.name, p.partition_index) in refused
                                    else answer.error,
                                )
                                for p in topic.partitions
                            ],
                        )
                        for topic in body.topics
                    ]
                )
            )

        event = events.Commit(
            reply, body.member_id, body.group_instance_id, body.generation_id_or_member_epoch, offsets
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(events.Answered(error))

    def fetch(self, request: Request) -> None:
        body: m.OffsetFetchRequest = request.body
        version = request.header.api_version
        if version >= 8:
            answered = []
            for asked in {g.group_id: g for g in body.groups}.values():
                offsets, error = self._groups.offsets(asked.group_id)
                unstable = self._groups.unstable(asked.group_id) if body.require_stable else frozenset()
                wanted = None if asked.topics is None else {t.name: t.partition_indexes for t in asked.topics}
                by_topic = self._chosen(offsets, wanted)
                answered.append(
                    m.OffsetFetchResponse.OffsetFetchResponseGroup(
                        group_id=asked.group_id,
                        error_code=error,
                        topics=[
                            m.OffsetFetchResponse.OffsetFetchResponseTopics(
                                name=name,
                                partitions=[
                                    m.OffsetFetchResponse.OffsetFetchResponsePartitions(
                                        partition_index=i, committed_offset=o.offset,
                                        committed_leader_epoch=o.leader_epoch, metadata=o.metadata,
                                    )
                                    if (name, i) not in unstable
                                    else m.OffsetFetchResponse.OffsetFetchResponsePartitions(
                                        partition_index=i, committed_offset=-1, committed_leader_epoch=-1,
                                        metadata="", error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
                                    )
                                    for i, o in parts
                                ],
                            )
                            for name, parts in by_topic.items()
                        ]
                        if not error
                        else [],
                    )
                )  # fmt: skip
            request.reply(m.OffsetFetchResponse(groups=answered))
            return
        offsets, error = self._groups.offsets(body.group_id)
        unstable = self._groups.unstable(body.group_id) if version >= 7 and body.require_stable else frozenset()
        everything = body.topics is None
        wanted = None if everything else {t.name: t.partition_indexes for t in body.topics or ()}
        request.reply(
            m.OffsetFetchResponse(
                error_code=error,
                topics=[
                    m.OffsetFetchResponse.OffsetFetchResponseTopic(
                        name=name,
                        partitions=[
                            m.OffsetFetchResponse.OffsetFetchResponsePartition(
                                partition_index=i, committed_offset=o.offset, committed_leader_epoch=o.leader_epoch,
                                metadata=o.metadata, error_code=error,
                            )
                            if (name, i) not in unstable
                            else m.OffsetFetchResponse.OffsetFetchResponsePartition(
                                partition_index=i, committed_offset=-1, committed_leader_epoch=-1, metadata="",
                                error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
                            )
                            for i, o in parts
                        ],
                    )
                    for name, parts in self._chosen(offsets, wanted).items()
                ],
            )
        )  # fmt: skip

    @staticmethod
    def _chosen(offsets: Any, wanted: dict[str, list[int]] | None) -> dict[str, list[tuple[int, Offset]]]:
        """What was asked for; -1 where nothing was committed."""
        out: dict[str, list[tuple[int, Offset]]] = {}
        if wanted is None:
            for (name, index), offset in sorted(offsets.items()):
                out.setdefault(name, []).append((index, offset))
            return out
        nothing = Offset(-1, -1, "", 0)
        for name, indexes in wanted.items():
            out[name] = [(i, offsets.get((name, i), nothing)) for i in indexes]
        return out

    def delete_offsets(self, request: Request) -> None:
        body: m.OffsetDeleteRequest = request.body
        group, error = self._groups.existing(body.group_id)
        if not error and group is None:
            error = GROUP_ID_NOT_FOUND
        if error or group is None:
            request.reply(m.OffsetDeleteResponse(error_code=error))
            return
        busy = bool(group.members)
        keys = [(t.name, p.partition_index) for t in body.topics for p in t.partitions]

        def done(error: int) -> None:
            request.reply(
                m.OffsetDeleteResponse(
                    error_code=error,
                    topics=[
                        m.OffsetDeleteResponse.OffsetDeleteResponseTopic(
                            name=t.name,
                            partitions=[
                                m.OffsetDeleteResponse.OffsetDeleteResponsePartition(
                                    partition_index=p.partition_index,
                                    error_code=GROUP_SUBSCRIBED_TO_TOPIC if busy else 0,
                                )
                                for p in t.partitions
                            ],
                        )
                        for t in body.topics
                    ],
                )
            )

        if busy:
            # Which topics a live member reads is known to the client's assignor only: all are protected.
            done(0)
        else:
            self._groups.tombstones(body.group_id, group, [k for k in keys if k in group.commits.offsets], False, done)

    # -- administration ------------------------------------------------------------------------------------------------------
    def describe(self, request: Request) -> None:
        body: m.DescribeGroupsRequest = request.body
        out = []
        for group_id in dict.fromkeys(body.groups):
            group, error = self._groups.existing(group_id)
            shown = m.DescribeGroupsResponse.DescribedGroup(
                group_id=group_id, error_code=error, group_state="" if error else State.DEAD.value
            )
            if group is not None:
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
                protocol_type=g.protocol_type or "",
                group_state=g.state.value,
                group_type="classic",
            )
            for led in self._groups.led.values()
            for g in led.groups.values()
            if (not states or g.state.value.lower() in states) and (not types or "classic" in types)
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
