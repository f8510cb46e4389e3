"""The doors of groups' offsets: committed, fetched, deleted. Parse, ask `groups`, shape the answer.

Law: who names a member is answered as that member's epoch allows. Must not come in: transactions (`participants`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.apis.committed import answered, offsets_of
from brokerd.cluster.model import Now
from brokerd.coordinator import events, retention
from brokerd.coordinator.consumer_events import GROUP_ID_NOT_FOUND
from brokerd.coordinator.consumer_group import ConsumerGroup
from brokerd.coordinator.embedded import PROTOCOL_TYPE
from brokerd.coordinator.events import Offset
from brokerd.coordinator.groups import NON_EMPTY_GROUP, Groups
from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

NOTHING = Offset(-1, -1, "", 0)


class GroupOffsetsApi:
    def __init__(self, groups: Groups, clock: Callable[[], Now]) -> None:
        self._groups, self._clock = groups, clock

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.OFFSET_FETCH: self.fetch,
            ApiKey.OFFSET_DELETE: self.delete_offsets,
        }

    def commit(self, request: Request) -> None:
        body: m.OffsetCommitRequest = request.body
        offsets, refused = offsets_of(body.topics, self._groups.metadata_bytes_max, self._clock().wall_ms)

        def reply(answer: Any) -> None:
            r = m.OffsetCommitResponse
            topics = answered(
                body.topics, answer, refused, r.OffsetCommitResponseTopic, r.OffsetCommitResponsePartition
            )
            request.reply(r(topics=topics))

        event = events.Commit(
            reply, body.member_id, body.group_instance_id, body.generation_id_or_member_epoch, offsets
        )
        error = self._groups.handle(body.group_id, event)
        if error:
            reply(events.Answered(error))

    def fetch(self, request: Request) -> None:
        body: m.OffsetFetchRequest = request.body
        r = m.OffsetFetchResponse
        if request.header.api_version >= 8:
            answered = []
            for asked in {g.group_id: g for g in body.groups}.values():
                wanted = None if asked.topics is None else {t.name: t.partition_indexes for t in asked.topics}
                found, error = self._found(
                    asked.group_id, wanted, body.require_stable, asked.member_id, asked.member_epoch
                )
                topics = [
                    r.OffsetFetchResponseTopics(
                        name=name,
                        partitions=[
                            r.OffsetFetchResponsePartitions(
                                partition_index=i, committed_offset=o.offset, committed_leader_epoch=o.leader_epoch,
                                metadata=o.metadata, error_code=unstable,
                            )
                            for i, o, unstable in parts
                        ],
                    )
                    for name, parts in found.items()
                ]  # fmt: skip
                answered.append(
                    r.OffsetFetchResponseGroup(
                        group_id=asked.group_id, error_code=error, topics=[] if error else topics
                    )
                )
            request.reply(r(groups=answered))
            return
        wanted = None if body.topics is None else {t.name: t.partition_indexes for t in body.topics}
        found, error = self._found(body.group_id, wanted, body.require_stable)
        request.reply(
            r(
                error_code=error,
                topics=[
                    r.OffsetFetchResponseTopic(
                        name=name,
                        partitions=[
                            r.OffsetFetchResponsePartition(
                                partition_index=i, committed_offset=o.offset, committed_leader_epoch=o.leader_epoch,
                                metadata=o.metadata, error_code=error or unstable,
                            )
                            for i, o, unstable in parts
                        ],
                    )
                    for name, parts in found.items()
                ],
            )
        )  # fmt: skip

    def _found(
        self,
        group_id: str,
        wanted: dict[str, list[int]] | None,
        stable: bool,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> tuple[dict[str, list[tuple[int, Offset, int]]], int]:
        """({topic: (partition, offset, error)}, error of the group). Wanted None is all there are; -1 stands where nothing was committed."""
        group, error = self._groups.existing(group_id)
        if isinstance(group, ConsumerGroup) and (member_id is not None or epoch >= 0):
            error = group.epoch_error(member_id or "", epoch)
        offsets = group.commits.offsets if group is not None else {}
        unstable = group.commits.unstable() if stable and group is not None else frozenset()
        if wanted is None:
            wanted = {}
            for name, index in sorted(offsets):
                wanted.setdefault(name, []).append(index)
        return {
            name: [
                (i, NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if (name, i) in unstable
                else (i, offsets.get((name, i), NOTHING), 0)
                for i in indexes
            ]
            for name, indexes in wanted.items()
        }, error

    def delete_offsets(self, request: Request) -> None:
        body: m.OffsetDeleteRequest = request.body
        group, error = self._groups.existing(body.group_id)
        if not error and group is None:
            error = GROUP_ID_NOT_FOUND
        if error or group is None:
            request.reply(m.OffsetDeleteResponse(error_code=error))
            return
        read = retention.subscribed(group)
        names = {t.name for t in body.topics}
        if read is None and not isinstance(group, ConsumerGroup) and group.protocol_type != PROTOCOL_TYPE:
            request.reply(m.OffsetDeleteResponse(error_code=NON_EMPTY_GROUP))
            return
        keys = [(t.name, p.partition_index) for t in body.topics for p in t.partitions]
        busy = names if read is None else names & read

        def done(error: int) -> None:
            part = m.OffsetDeleteResponse.OffsetDeleteResponsePartition
            request.reply(
                m.OffsetDeleteResponse(
                    error_code=error,
                    topics=[
                        m.OffsetDeleteResponse.OffsetDeleteResponseTopic(
                            name=t.name,
                            partitions=[
                                part(
                                    partition_index=p.partition_index,
                                    error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if t.name in busy else 0,
                                )
                                for p in t.partitions
                            ],
                        )
                        for t in body.topics
                    ],
                )
            )

        gone = [k for k in keys if k in group.commits.offsets and k[0] not in busy]
        self._groups.tombstones(body.group_id, group, gone, False, done)
