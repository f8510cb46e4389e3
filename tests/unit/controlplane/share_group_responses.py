"""Brokers that answer requests about share groups from tables, for the tests of clients, selectors, services, views and REST."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connection import NoResponse
from controlplane.selectors import share_groups as selectors

TOPIC_ID = UUID(int=7)
Offsets = dict[tuple[str, int], tuple[int, int]]
"""{partition: (start offset, lag)}, -1 = unknown."""


@dataclass
class ShareGroupWorld:
    """`groups`: offsets by group, `members`: member ids by group. Broker 1 coordinates all. `silent`: brokers without a response. `slow`: requests
    without a response. `errors`: of partitions in a change of offsets."""

    groups: dict[str, Offsets] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    slow: set[ApiKey] = field(default_factory=set)
    errors: dict[tuple[str, int], ErrorCode] = field(default_factory=dict)
    requests: list[ApiKey] = field(default_factory=list)
    in_flight: dict[str, list[m.DescribeLogDirsResponse.ShareInFlight]] = field(default_factory=dict)
    """Records in flight by group, of the partitions that broker 1 leads."""

    def connection(self, host: str, port: int) -> Any:
        def call(api: ApiKey, version: int, body: Any, seconds: float = 0) -> Any:
            self.requests.append(api)
            if api in self.slow:
                raise NoResponse(f"{api.name} has no response")
            return getattr(self, api.name.lower())(body)

        return SimpleNamespace(host=host, port=port, call=call, close=lambda: None)

    def ask(self, brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        found: list[BrokerResponse[Any]] = []
        for b in brokers:
            if b.broker_id in self.silent:
                found.append(BrokerResponse(b.broker_id, None, "it is frozen"))
                continue
            mine = self if b.broker_id == 1 else ShareGroupWorld()
            found.append(BrokerResponse(b.broker_id, call(mine.connection(b.host, b.port))))
        return found

    # -- requests ------------------------------------------------------------------------------------------------------
    def find_coordinator(self, body: Any) -> Any:
        return m.FindCoordinatorResponse(host="h", port=1)

    def list_groups(self, body: Any) -> Any:
        listed = m.ListGroupsResponse.ListedGroup
        assert body.types_filter == ["share"]
        return m.ListGroupsResponse(
            groups=[listed(group_id=g, group_state=self._state(g), group_type="share") for g in self.groups]
        )

    def _state(self, group: str) -> str:
        return "Stable" if self.members.get(group) else "Empty"

    def share_group_describe(self, body: Any) -> Any:
        r = m.ShareGroupDescribeResponse
        return r(groups=[self._group_description(r, g) for g in body.group_ids])

    def _group_description(self, r: Any, group: str) -> Any:
        if group not in self.groups:
            return r.DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id=group)
        topics: dict[str, list[int]] = {}
        for topic, index in self.groups[group]:
            topics.setdefault(topic, []).append(index)
        has = r.Assignment(
            [r.TopicPartitions(topic_id=TOPIC_ID, topic_name=t, partitions=p) for t, p in topics.items()]
        )
        return r.DescribedGroup(
            group_id=group,
            group_state=self._state(group),
            group_epoch=4,
            assignor_name="simple",
            members=[
                r.Member(member_id=x, client_id="c", client_host="/h", subscribed_topic_names=[*topics], assignment=has)
                for x in self.members.get(group, ())
            ],
        )

    def describe_share_group_offsets(self, body: Any) -> Any:
        r = m.DescribeShareGroupOffsetsResponse
        out = []
        for g in body.groups:
            assert g.topics is None
            topics: dict[str, list[Any]] = {}
            for (topic, index), (start, lag) in self.groups[g.group_id].items():
                part = r.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=start, lag=lag)
                topics.setdefault(topic, []).append(part)
            shown = [
                r.DescribeShareGroupOffsetsResponseTopic(topic_name=t, topic_id=TOPIC_ID, partitions=p)
                for t, p in topics.items()
            ]
            out.append(r.DescribeShareGroupOffsetsResponseGroup(group_id=g.group_id, topics=shown))
        return r(groups=out)

    def describe_log_dirs(self, body: Any) -> Any:
        return m.DescribeLogDirsResponse(share_in_flight=self.in_flight.get(body.share_group, []))

    def alter_share_group_offsets(self, body: Any) -> Any:
        r = m.AlterShareGroupOffsetsResponse
        if self.members.get(body.group_id):
            return r(error_code=ErrorCode.NON_EMPTY_GROUP)
        out = []
        for t in body.topics:
            parts = []
            for p in t.partitions:
                key = t.topic_name, p.partition_index
                if key not in self.errors:
                    self.groups[body.group_id][key] = (p.start_offset, -1)
                parts.append(
                    r.AlterShareGroupOffsetsResponsePartition(
                        partition_index=p.partition_index, error_code=self.errors.get(key, 0)
                    )
                )
            out.append(
                r.AlterShareGroupOffsetsResponseTopic(topic_name=t.topic_name, topic_id=TOPIC_ID, partitions=parts)
            )
        return r(responses=out)

    def delete_share_group_offsets(self, body: Any) -> Any:
        r = m.DeleteShareGroupOffsetsResponse
        if self.members.get(body.group_id):
            return r(error_code=ErrorCode.NON_EMPTY_GROUP)
        names = [t.topic_name for t in body.topics]
        mine = self.groups[body.group_id]
        self.groups[body.group_id] = {k: v for k, v in mine.items() if k[0] not in names}
        return r(
            responses=[
                r.DeleteShareGroupOffsetsResponseTopic(topic_name=n, topic_id=TOPIC_ID, error_code=0) for n in names
            ]
        )

    def offset_fetch(self, body: Any) -> Any:
        r = m.OffsetFetchResponse
        parts = [r.OffsetFetchResponsePartitions(0, 33, -1, "", 0)]
        topics = [r.OffsetFetchResponseTopics(name="orders", partitions=parts)]
        return r(groups=[r.OffsetFetchResponseGroup(body.groups[0].group_id, topics, 0)])


def patch_responses(monkeypatch: pytest.MonkeyPatch) -> ShareGroupWorld:
    """The selectors ask this world."""
    world = ShareGroupWorld()
    monkeypatch.setattr(selectors, "call_brokers", world.ask)
    return world


def records_in_flight(topic: str, index: int, **counts: Any) -> m.DescribeLogDirsResponse.ShareInFlight:
    """`acquired`: numbers by member. Other numbers are 0, and the limit is 200."""
    r = m.DescribeLogDirsResponse
    acquired = [r.AcquiredRecords(member_id=k, count=n) for k, n in counts.pop("acquired", {}).items()]
    values = {"lock_ms": -1, "redelivery": 0, "archiving": 0, "in_flight": 0, "in_flight_max": 200, **counts}
    return r.ShareInFlight(topic=topic, partition_index=index, acquired=acquired, **values)
