"""The requests of the control plane about share groups, answered by complete brokers: list, description, start offsets, changes and deletion."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC
from brokerd.wire.errors import ErrorCode
from controlplane.clients import group_offsets, kafka, share_groups
from controlplane.clients.share_groups import DescribedShareGroup
from controlplane.clients.share_offsets import ShareOffsetsClient, offsets_client
from controlplane.domain.offset_reset_types import CommittedOffset
from tests.simulation.checkers import History
from tests.simulation.clients import Client, Producer
from tests.simulation.cluster import Cluster
from tests.simulation.share_checker import ShareChecker
from tests.simulation.share_members import ShareMember
from tests.simulation.shares import DELIVERIES_MAX, EARLIEST, GROUP, LOCK_MS, SETTINGS, TOPIC, configure, short_times
from tests.simulation.world import S, World

T0, T1 = (TOPIC, 0), (TOPIC, 1)


class Scene:
    """A cluster with a share group whose member accepts every record."""

    def __init__(self) -> None:
        self.world, self.history = World(1), History()
        self.cluster = Cluster(self.world, settings=SETTINGS)
        self.cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact")
        self.cluster.want_topic(SHARE_STATE_TOPIC, 2, 3, min_insync_replicas="2", retention_ms="-1")
        topic_id = self.cluster.want_topic(TOPIC, 2, 3, min_insync_replicas="2")
        self.cluster.run_until(self.cluster.is_settled, 30, "the cluster's beginning")
        configure(self.cluster, EARLIEST)
        checker = ShareChecker(self.world, LOCK_MS, DELIVERIES_MAX)
        self.producer = Producer(self.cluster, self.history, "p0", TOPIC, 0, 200)
        self.member = ShareMember(self.cluster, self.history, checker, "m0", GROUP, TOPIC, topic_id)
        self.member.calm = True
        self.admin = Client(self.cluster, "admin")

    def run(self, seconds: int) -> None:
        self.world.run(self.world.now_us + seconds * S)

    def connection(self, host: str, port: int) -> Any:
        """A blocking connection: the world runs until the response. An unknown address is that of a bootstrap server."""
        broker = next((i for i, b in self.cluster.brokers.items() if b.address[0] == host), 1)

        def call(api: int, version: int, body: Any, seconds: float = 0) -> Any:
            responses: list[Any] = []
            self.admin.enter(lambda: self.admin.send_request(broker, api, version, body, responses.append))
            self.cluster.run_until(lambda: bool(responses), 10, f"the response to request {api}")
            assert responses[0] is not None
            return responses[0]

        return SimpleNamespace(host=host, port=port, call=call, close=lambda: None)

    def describe_all(self) -> list[DescribedShareGroup]:
        found: list[DescribedShareGroup] = []
        for broker_id, node in self.cluster.brokers.items():
            connection = self.connection(*node.address)
            listed = share_groups.list_share_groups(connection, broker_id)
            assert all(g.coordinator == broker_id for g in listed)
            found += share_groups.sample_share_groups(connection, broker_id) or ()
        return found


@pytest.fixture
def share_group_scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with short_times():
        made = Scene()
        for module in (group_offsets, kafka):
            monkeypatch.setattr(module, "KafkaConnection", made.connection)
        yield made


def test_a_group_is_read_reset_and_deleted(share_group_scene: Scene) -> None:
    share_group_scene.run(6)
    share_group_scene.producer.stopped = True
    share_group_scene.run(3)
    end = len(share_group_scene.history.acknowledged[T0])
    (group,) = share_group_scene.describe_all()
    assert (group.group_id, group.state, group.lag_records) == (GROUP, "Stable", 0)
    assert [x.partitions for x in group.members] == [(T0, T1)]
    with offsets_client(GROUP) as client:
        assert isinstance(client, ShareOffsetsClient) and client.status().active
        assert client.fetch_committed() == ({T0: CommittedOffset(end), T1: CommittedOffset(0)}, set())
        assert client.commit({T0: CommittedOffset(5)}) == {T0: ErrorCode.NON_EMPTY_GROUP}
    share_group_scene.member.stopped = True
    share_group_scene.run(6)
    with offsets_client(GROUP) as client:
        assert not client.status().active and client.commit({T0: CommittedOffset(5)}) == {}
        assert client.fetch_committed()[0] == {T0: CommittedOffset(5), T1: CommittedOffset(0)}
        (group,) = share_group_scene.describe_all()
        assert (group.state, group.members, group.offsets[0].start) == ("Empty", (), 5)
        assert client.delete([T0]) == {T0: ErrorCode.INVALID_REQUEST}, "offsets are deleted for whole topics"
        assert client.delete([T0, T1]) == {} and client.fetch_committed()[0] == {}
    kafka.delete_group(GROUP)
    assert share_group_scene.describe_all() == [] and type(offsets_client(GROUP)) is not ShareOffsetsClient
