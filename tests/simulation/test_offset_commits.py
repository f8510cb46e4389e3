"""The responses of OffsetCommit and TxnOffsetCommit to clients that are not members, and for partitions that do not exist. Complete brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode as E
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster
from tests.simulation.world import World

TOPIC = "t"
Errors = dict[tuple[str, int], int]


class CommitClient(Client):
    def respond(self, broker_id: int, key: int, version: int, body: Any) -> Any:
        responses: list[Any] = []
        self.enter(lambda: self.send_request(broker_id, key, version, body, responses.append))
        self.cluster.run_until(lambda: bool(responses), 10, f"a response of API {key}")
        assert responses[0] is not None
        return responses[0]


class Scene:
    def __init__(self) -> None:
        self.cluster = Cluster(World(1), brokers=1, controllers=1)
        for name, partitions in ((TOPIC, 2), (GROUP_OFFSETS_TOPIC, 1), (TRANSACTION_STATE_TOPIC, 1)):
            self.cluster.want_topic(name, partitions, 1, min_insync_replicas="1")
        self.cluster.run_until(self.cluster.is_settled, 30, "the cluster's beginning")
        self.client = CommitClient(self.cluster, "client")
        self.producers: dict[str, Any] = {}
        self.cluster.run_until(self._is_served, 10, "both coordinators")

    def _is_served(self) -> bool:
        broker = self.cluster.brokers[1].broker
        return all(
            c.shards and c.shards[0].loaded for c in (broker.coordinators.groups, broker.coordinators.transactions)
        )

    def commit(self, group: str, version: int, places: list[tuple[str, int]], member: str, generation: int) -> Errors:
        r = m.OffsetCommitRequest
        topics = [
            r.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    r.OffsetCommitRequestPartition(partition_index=index, committed_offset=3, committed_metadata=None)
                ],
            )
            for name, index in places
        ]
        body = r(group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=topics)
        return errors(self.client.respond(1, ApiKey.OFFSET_COMMIT, version, body))

    def commit_in_transaction(
        self, group: str, version: int, places: list[tuple[str, int]], member: str, generation: int
    ) -> Errors:
        producer = self.producer(group)
        r = m.TxnOffsetCommitRequest
        topics = [
            r.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    r.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=3, committed_metadata=None
                    )
                ],
            )
            for name, index in places
        ]
        body = r(
            transactional_id=group,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id=generation,
            member_id=member,
            topics=topics,
        )
        return errors(self.client.respond(1, ApiKey.TXN_OFFSET_COMMIT, version, body))

    def producer(self, transactional_id: str) -> Any:
        if transactional_id in self.producers:
            return self.producers[transactional_id]
        init = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        response = self.client.respond(1, ApiKey.INIT_PRODUCER_ID, 4, init)
        assert response.error_code == 0
        self.producers[transactional_id] = response
        return response

    def groups(self) -> set[str]:
        return set(self.cluster.brokers[1].broker.coordinators.groups.shards[0].groups)


def errors(response: Any) -> Errors:
    return {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}


@pytest.fixture(scope="module")
def commit_scene() -> Scene:
    return Scene()


CASES: list[tuple[Callable[..., Errors], int, int]] = [
    (Scene.commit, 7, E.ILLEGAL_GENERATION),
    (Scene.commit, 8, E.ILLEGAL_GENERATION),
    (Scene.commit, 9, E.GROUP_ID_NOT_FOUND),
    (Scene.commit_in_transaction, 5, E.ILLEGAL_GENERATION),
]


@pytest.mark.parametrize(("commit", "version", "no_group"), CASES)
def test_a_client_without_membership_commits_to_a_group_without_members(
    commit_scene: Scene, commit: Callable[..., Errors], version: int, no_group: int
) -> None:
    group, place = f"{commit.__name__}-{version}", (TOPIC, 0)
    assert commit(commit_scene, group, version, [place], "m-1", 4) == {place: no_group}
    assert group not in commit_scene.groups()
    assert commit(commit_scene, group, version, [place], "m-1", -1) == {place: E.NONE}
    assert commit(commit_scene, group, version, [place], "m-1", -1) == {place: E.NONE}, "the group exists now"
    assert commit(commit_scene, group, version, [place], "m-1", 4) == {place: E.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize(("commit", "version", "no_group"), CASES)
def test_each_partition_that_does_not_exist_is_rejected(
    commit_scene: Scene, commit: Callable[..., Errors], version: int, no_group: int
) -> None:
    group = f"unknown-{commit.__name__}-{version}"
    unknown = {("nowhere", 0): E.UNKNOWN_TOPIC_OR_PARTITION, (TOPIC, 2): E.UNKNOWN_TOPIC_OR_PARTITION}
    assert commit(commit_scene, group, version, list(unknown), "m-1", 4) == unknown, (
        "the group was asked for unknown partitions"
    )
    assert group not in commit_scene.groups()
    assert commit(commit_scene, group, version, [*unknown, (TOPIC, 1)], "", -1) == {**unknown, (TOPIC, 1): E.NONE}
    negative = {(TOPIC, -1): E.UNKNOWN_TOPIC_OR_PARTITION}
    assert commit(commit_scene, group, version, list(negative), "", -1) == negative
