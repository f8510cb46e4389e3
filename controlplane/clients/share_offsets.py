"""Start offsets of one share group (KIP-932): the requests of an offset reset, with the interface of `group_offsets`. Blocking; raises NoResponse and
Declined of `clients.connection`.

Invariant: offsets change only while the group has no members; the coordinator rejects otherwise. Does not contain: what a reset changes
(`domain.offset_reset`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.group_offsets import (
    DEADLINE_SECONDS,
    GroupOffsetsClient,
    GroupStatus,
    MemberStatus,
    by_topic,
    chunks,
)
from controlplane.clients.group_samples import DescribedGroupState, GroupType
from controlplane.clients.share_groups import DESCRIBE_VERSION, OFFSETS_VERSION, members_of, offsets_of, offsets_request
from controlplane.domain.offset_reset_types import CommittedOffset, Key


class ShareOffsetsClient(GroupOffsetsClient):
    """The start offsets of a share group in place of committed offsets. They have no leader epoch and no metadata."""

    def status(self) -> GroupStatus:
        response = self._call_coordinator(
            ApiKey.SHARE_GROUP_DESCRIBE,
            DESCRIBE_VERSION,
            m.ShareGroupDescribeRequest(group_ids=[self.group_id]),
            lambda a: a.groups[0].error_code,
            accepted=(ErrorCode.GROUP_ID_NOT_FOUND,),
        ).groups[0]
        if response.error_code:
            return GroupStatus(DescribedGroupState.DEAD, GroupType.SHARE, ())
        members = tuple(MemberStatus(x.member_id, None, x.client_id, x.host) for x in members_of(response))
        return GroupStatus(response.group_state, GroupType.SHARE, members)

    def fetch_committed(
        self, keys: Iterable[Key] | None = None, group_id: str = ""
    ) -> tuple[dict[Key, CommittedOffset], set[Key]]:
        if group_id:
            return super().fetch_committed(keys, group_id)
        body = offsets_request([self.group_id])
        response = self._call_coordinator(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, OFFSETS_VERSION, body, lambda a: a.groups[0].error_code
        )
        requested = None if keys is None else set(keys)
        found = {(x.topic, x.index): x for x in offsets_of(response.groups[0])}
        return {
            key: CommittedOffset(x.start)
            for key, x in found.items()
            if x.start is not None and (requested is None or key in requested)
        }, set()

    def commit(self, offsets: Mapping[Key, CommittedOffset]) -> dict[Key, ErrorCode]:
        request = m.AlterShareGroupOffsetsRequest
        errors: dict[Key, ErrorCode] = {}
        for keys in chunks(sorted(offsets)):
            topics = [
                request.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        request.AlterShareGroupOffsetsRequestPartition(
                            partition_index=i, start_offset=offsets[name, i].offset
                        )
                        for i in indexes
                    ],
                )
                for name, indexes in by_topic(keys).items()
            ]
            body = request(group_id=self.group_id, topics=topics)
            response = self._call_coordinator(
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                0,
                body,
                lambda a: a.error_code,
                accepted=(ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND),
            )
            if response.error_code:
                errors |= dict.fromkeys(keys, ErrorCode(response.error_code))
            errors |= {
                (t.topic_name, p.partition_index): ErrorCode(p.error_code)
                for t in response.responses
                for p in t.partitions
                if p.error_code
            }
        return errors

    def delete(self, keys: Iterable[Key]) -> dict[Key, ErrorCode]:
        """A share group's offsets are deleted for whole topics: partitions of a topic of which others stay get INVALID_REQUEST."""
        requested = by_topic(keys)
        known = by_topic(self.fetch_committed()[0])
        errors = {
            (name, i): ErrorCode.INVALID_REQUEST
            for name, indexes in requested.items()
            if set(known.get(name, ())) - set(indexes)
            for i in indexes
        }
        names = sorted({name for name, indexes in requested.items() if (name, indexes[0]) not in errors})
        if not names:
            return errors
        request = m.DeleteShareGroupOffsetsRequest
        body = request(
            group_id=self.group_id, topics=[request.DeleteShareGroupOffsetsRequestTopic(topic_name=n) for n in names]
        )
        response = self._call_coordinator(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            0,
            body,
            lambda a: a.error_code,
            accepted=(ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND),
        )
        codes = {t.topic_name: t.error_code for t in response.responses}
        for name in names:
            code = ErrorCode(response.error_code or codes.get(name, ErrorCode.NONE))
            if code:
                errors |= {(name, i): code for i in requested[name]}
        return errors


def offsets_client(group_id: str, deadline_s: float = DEADLINE_SECONDS) -> GroupOffsetsClient:
    """The client for the offsets of this group, which depends on its type. Raises NoResponse and Declined."""
    with GroupOffsetsClient(group_id, deadline_s) as group:
        kind = ShareOffsetsClient if group.is_share_group() else GroupOffsetsClient
    client = kind(group_id, deadline_s)
    client.requests.update(group.requests)
    return client
