"""ShareFetch and ShareAcknowledge over share partitions in memory: sessions, waiting, piggy-backed acknowledgements, disconnected clients."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.share_fetch import ShareFetchApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.model import Now
from brokerd.net.client_traffic import ClientTraffic
from brokerd.replication.purgatory import Purgatory, WaitingFetches
from brokerd.sharing.delivery import AcknowledgeType
from brokerd.sharing.sessions import ShareSessions
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.apis import test_share_partitions as memory

T = memory.T
FETCH, ACK = m.ShareFetchRequest, m.ShareAcknowledgeRequest
ACCEPT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RENEW


class Client:
    """A member on its own connection. `responses` has the responses in order."""

    def __init__(self, scene: Scene, member: str = "m") -> None:
        self.scene, self.member = scene, member
        self.responses: list[Any] = []
        self.traffic = ClientTraffic(0)
        self.ended: Callable[[], None] = lambda: None

    def send(self, key: ApiKey, body: Any) -> Any:
        def on_send(ended: Callable[[], None]) -> None:
            self.ended = ended

        request: Any = SimpleNamespace(
            body=body,
            header=SimpleNamespace(api_key=key, api_version=2),
            reply=self.responses.append,
            principal="User:a",
            client_host="h",
            listener="L",
            connection=self,
            abandoned=False,
            traffic=self.traffic,
            owner=None,
            when_disconnected=on_send,
            attempt=lambda work: work(),
            block=lambda **more: None,
        )
        before = len(self.responses)
        self.scene.api.handlers()[key](request)
        return self.responses[before] if len(self.responses) > before else None

    def fetch(self, epoch: int, *acks: tuple[int, int, int], wait_ms: int = 0, **more: Any) -> Any:
        batches = [FETCH.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[k]) for a, b, k in acks]
        part = FETCH.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        topics = [FETCH.FetchTopic(topic_id=T, partitions=[part])] if epoch == 0 or acks else []
        fields = {
            "max_records": 500,
            "min_bytes": 1,
            "topics": topics,
            "group_id": "g",
            "member_id": self.member,
            **more,
        }
        return self.send(ApiKey.SHARE_FETCH, FETCH(share_session_epoch=epoch, max_wait_ms=wait_ms, **fields))

    def acknowledge(self, epoch: int, *acks: tuple[int, int, int], **more: Any) -> Any:
        batches = [ACK.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[k]) for a, b, k in acks]
        part = ACK.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = [ACK.AcknowledgeTopic(topic_id=T, partitions=[part])] if acks else []
        body = ACK(group_id="g", member_id=self.member, share_session_epoch=epoch, topics=topics, **more)
        return self.send(ApiKey.SHARE_ACKNOWLEDGE, body)


class Scene(memory.Scene):
    def __init__(self, sessions_max: int = 10, auth: Any = ALLOW_ALL) -> None:
        super().__init__()
        self.replica.topic = "t"
        self.replica_manager.purgatory = Purgatory()
        partition = SimpleNamespace(leader=2, leader_epoch=5)
        self.replica_manager.image.topics[T] = SimpleNamespace(name="t", partitions={0: partition})
        loop: Any = SimpleNamespace(now=Now(1_000_000, 0))
        self.api = ShareFetchApi(
            loop,
            self.replica_manager,
            self.shared,
            ShareSessions(sessions_max),
            WaitingFetches(lambda: 10, lambda: 10),
            auth,
            lambda group: self.config,
            lambda broker_id, listener: ("host", 9092, None),
            bytes_max=1 << 20,
        )

    def write_records(self, count: int) -> None:
        self.log.write(count)
        self.replica.core.high_watermark = self.log.end_offset


def part_of(response: Any) -> Any:
    (topic,) = response.responses
    (part,) = topic.partitions
    return part


def acquired_ranges(response: Any) -> list[tuple[int, int, int]]:
    return [(a.first_offset, a.last_offset, a.delivery_count) for a in part_of(response).acquired_records]


def test_records_are_fetched_and_acknowledged_with_the_next_fetch() -> None:
    scene = Scene()
    client = Client(scene)
    scene.write_records(10)
    first = client.fetch(0)
    assert acquired_ranges(first) == [(0, 9, 1)] and first.acquisition_lock_timeout_ms == 30_000
    assert scene.replica.sent_bytes == [len(part_of(first).records), 0] and scene.replica.sent_bytes[0] > 0
    assert client.traffic.fetched is not None
    assert client.traffic.fetched.bytes == {scene.replica.topic: scene.replica.sent_bytes[0]}
    assert client.fetch(1, (0, 9, ACCEPT)) is None, "the acknowledgement is not durable yet"
    scene.writes[0][1](0)
    (response,) = client.responses[1:]
    assert (part_of(response).acknowledge_error_code, acquired_ranges(response)) == (0, [])


def test_a_fetch_waits_for_records() -> None:
    scene = Scene()
    client = Client(scene)
    scene.replica.core.high_watermark = 0
    assert client.fetch(0, wait_ms=500) is None
    scene.write_records(3)
    scene.replica_manager.purgatory.check("hw")
    assert acquired_ranges(client.responses[0]) == [(0, 2, 1)]
    assert client.fetch(1, wait_ms=500) is None
    scene.replica_manager.purgatory.expire(1_000_500)
    assert client.responses[1].responses == []


def test_a_disconnected_member_gives_its_records_back() -> None:
    scene = Scene()
    first, second = Client(scene, "a"), Client(scene, "b")
    scene.write_records(5)
    first.fetch(0)
    assert second.fetch(0, wait_ms=500) is None
    first.ended()
    assert acquired_ranges(second.responses[0]) == [(0, 4, 1)]
    assert first.fetch(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_last_request_of_a_session_releases_what_is_not_acknowledged() -> None:
    scene = Scene()
    client, other = Client(scene, "a"), Client(scene, "b")
    scene.write_records(5)
    client.fetch(0)
    client.acknowledge(-1, (0, 1, ACCEPT))
    while scene.writes:
        scene.writes.pop(0)[1](0)
    assert part_of(client.responses[1]).error_code == 0
    assert acquired_ranges(other.fetch(0)) == [(2, 4, 1)]
    assert client.acknowledge(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_session_epochs_are_checked() -> None:
    scene = Scene(sessions_max=1)
    client = Client(scene)
    scene.write_records(1)
    assert client.fetch(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    client.fetch(0)
    assert client.fetch(2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert client.acknowledge(0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert Client(scene, "other").fetch(0).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.parametrize(
    "more",
    [{"group_id": ""}, {"member_id": ""}, {"share_acquire_mode": 2}, {"is_renew_ack": True}, {"acks": (0, 0, ACCEPT)}],
)
def test_invalid_requests_are_rejected(more: dict[str, Any]) -> None:
    acks = [more.pop("acks")] if "acks" in more else []
    assert Client(Scene()).fetch(0, *acks, **more).error_code == ErrorCode.INVALID_REQUEST


def test_a_renewal_needs_its_flag_and_extends_the_lock() -> None:
    scene = Scene()
    client = Client(scene)
    scene.write_records(5)
    client.fetch(0)
    assert client.fetch(1, (0, 4, RENEW)).error_code == ErrorCode.INVALID_REQUEST
    response = client.acknowledge(1, (0, 4, RENEW), is_renew_ack=True)
    assert (part_of(response).error_code, response.acquisition_lock_timeout_ms) == (0, 30_000)


def test_another_leader_is_named() -> None:
    scene = Scene()
    scene.replica.leads = False
    response = Client(scene).fetch(0, wait_ms=500)
    part = part_of(response)
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 5)
    assert [(e.node_id, e.host, e.port) for e in response.node_endpoints] == [(2, "host", 9092)]


def test_acls_of_group_and_topic_apply() -> None:
    no_group: Any = SimpleNamespace(authorize=lambda *a: False)
    assert Client(Scene(auth=no_group)).fetch(0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    no_topic: Any = SimpleNamespace(authorize=lambda request, operation, resource, name: name == "g")
    client = Client(Scene(auth=no_topic))
    assert part_of(client.fetch(0)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert part_of(client.acknowledge(1, (0, 0, ACCEPT))).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_unknown_topic_id_is_reported() -> None:
    scene = Scene()
    part = FETCH.FetchPartition(partition_index=0)
    response = Client(scene).fetch(0, topics=[FETCH.FetchTopic(topic_id=UUID(int=8), partitions=[part])])
    assert part_of(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID
