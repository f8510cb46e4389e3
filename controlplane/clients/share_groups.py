"""Share groups (KIP-932) that one broker coordinates: members, start offsets, lag. Blocking; raises NoResponse of `clients.connection`.

Invariant: each request has a deadline of one second, because pages and the cluster monitor wait for it. Does not contain: changes of offsets
(`share_offsets`), several brokers (`selectors.share_groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from brokerd.sharing.delivery import RecordsInFlight
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import KafkaConnection, NoResponse
from controlplane.clients.group_samples import DescribedGroupState, GroupType, Key

READ_SECONDS = 1.0
"""Deadline of one request of a page."""

DESCRIBE_VERSION, OFFSETS_VERSION, LOG_DIRS_VERSION = 1, 1, 4


@dataclass(frozen=True, slots=True)
class ListedShareGroup:
    group_id: str
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    client_id: str
    host: str
    topics: tuple[str, ...]
    partitions: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """`start`: the first offset whose delivery has not ended; None: the group has read nothing there yet. `lag`: records from there on whose delivery
    has not ended. `error`: why they are unknown, or empty."""

    topic: str
    index: int
    start: int | None
    lag: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class DescribedShareGroup:
    """A share group as its coordinator describes it."""

    group_id: str
    state: str
    epoch: int
    assignor: str
    members: tuple[ShareMember, ...]
    offsets: tuple[SharePartitionOffset, ...]

    @property
    def lag_records(self) -> int | None:
        """The sum over the partitions with a known lag. None: no lag is known."""
        known = [x.lag for x in self.offsets if x.lag is not None]
        return sum(known) if known else None

    @property
    def partitions_unknown(self) -> int:
        return sum(x.lag is None for x in self.offsets)


def list_share_groups(connection: KafkaConnection, broker_id: int) -> list[ListedShareGroup]:
    """The share groups that this broker coordinates. Raises NoResponse."""
    body = m.ListGroupsRequest(types_filter=[GroupType.SHARE])
    response = connection.call(ApiKey.LIST_GROUPS, 5, body, READ_SECONDS)
    return [
        ListedShareGroup(g.group_id, g.group_state, broker_id)
        for g in response.groups
        if g.group_type == GroupType.SHARE
    ]


def describe_share_groups(connection: KafkaConnection, group_ids: Sequence[str]) -> list[DescribedShareGroup]:
    """Describe the groups that this broker coordinates and has loaded, with their offsets. Other groups are omitted. Raises NoResponse."""
    described = connection.call(
        ApiKey.SHARE_GROUP_DESCRIBE,
        DESCRIBE_VERSION,
        m.ShareGroupDescribeRequest(group_ids=list(group_ids)),
        READ_SECONDS,
    ).groups
    mine = [g for g in described if g.error_code == ErrorCode.NONE and g.group_state != DescribedGroupState.DEAD]
    if not mine:
        return []
    body = offsets_request(g.group_id for g in mine)
    response = connection.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, OFFSETS_VERSION, body, READ_SECONDS)
    offsets = {g.group_id: offsets_of(g) for g in response.groups if g.error_code == ErrorCode.NONE}
    return [
        DescribedShareGroup(
            g.group_id, g.group_state, g.group_epoch, g.assignor_name, members_of(g), offsets.get(g.group_id, ())
        )
        for g in mine
    ]


def describe_in_flight(connection: KafkaConnection, group_id: str) -> dict[Key, RecordsInFlight]:
    """Records in flight in the share partitions of a group that this broker leads and has loaded. Raises NoResponse."""
    body = m.DescribeLogDirsRequest(topics=[], share_group=group_id)
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, LOG_DIRS_VERSION, body, READ_SECONDS)
    return {
        (x.topic, x.partition_index): RecordsInFlight(
            {a.member_id: a.count for a in x.acquired},
            x.lock_ms if x.lock_ms >= 0 else None,
            x.redelivery,
            x.archiving,
            x.in_flight,
            x.in_flight_max,
        )
        for x in response.share_in_flight
    }


def sample_share_groups(connection: KafkaConnection, broker_id: int) -> tuple[DescribedShareGroup, ...] | None:
    """All share groups that this broker coordinates. None: it did not respond in time, for example because it waits for a share coordinator."""
    try:
        names = [g.group_id for g in list_share_groups(connection, broker_id)]
        return tuple(describe_share_groups(connection, names)) if names else ()
    except NoResponse:
        return None


def members_of(group: m.ShareGroupDescribeResponse.DescribedGroup) -> tuple[ShareMember, ...]:
    """The members in a response."""
    return tuple(
        ShareMember(
            x.member_id,
            x.client_id,
            x.client_host.lstrip("/"),
            tuple(x.subscribed_topic_names),
            tuple((t.topic_name, p) for t in x.assignment.topic_partitions for p in t.partitions),
        )
        for x in group.members
    )


def offsets_request(group_ids: Iterable[str]) -> m.DescribeShareGroupOffsetsRequest:
    """The request for all offsets of these groups."""
    request = m.DescribeShareGroupOffsetsRequest
    shape = request.DescribeShareGroupOffsetsRequestGroup
    return request(groups=[shape(group_id=g, topics=None) for g in group_ids])


def offsets_of(
    group: m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup,
) -> tuple[SharePartitionOffset, ...]:
    """The offsets in a response."""
    return tuple(
        SharePartitionOffset(
            t.topic_name,
            p.partition_index,
            p.start_offset if p.start_offset >= 0 and not p.error_code else None,
            p.lag if p.lag >= 0 and not p.error_code else None,
            ErrorCode(p.error_code).text if p.error_code else "",
        )
        for t in group.topics
        for p in t.partitions
    )
