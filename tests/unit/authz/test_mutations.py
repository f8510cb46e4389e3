"""controller_mutation_rate (KIP-599): a token bucket that may become negative once. After that, requests of
versions that define THROTTLING_QUOTA_EXCEEDED are rejected, and every client is throttled."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.admin import AdminApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.authz.mutations import Mutations, MutationTokens
from brokerd.authz.quotas import Quotas
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, RequestCompleted, TopicCreated, TopicReady
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation
from brokerd.cluster.quota_entities import MUTATIONS, entity_key
from brokerd.cluster.requests import AnyPayload, TopicsPayload
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.unit.authz.test_quotas import FakeConnection, call, decode_reply
from tests.unit.replication.test_many_partitions import MANY

RATE = 2.0  # partitions per second: a bucket of 22


class Admin:
    """The APIs that change topics, with a controller that accepts everything. Topic `m` has 9 partitions."""

    def __init__(self, limited: str | None = "alice") -> None:
        quotas, self.ms, self.forwarded = Quotas(), 100_000, list[tuple[str, list[Any]]]()
        if limited is not None:
            quotas.set([(entity_key({"user": limited}), {MUTATIONS: RATE})])
        image = Image()
        state = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
        for record in (
            TopicCreated(MANY, "m", 1, {}, 9),
            *(PartitionChanged(MANY, i, state) for i in range(9)),
            TopicReady(MANY),
        ):
            image.apply(record)
        config: Any = {"num.partitions": 3, "default.replication.factor": 1}
        self.api = AdminApi(
            config, lambda: image, self._send_request, Mutations(quotas), lambda: Now(self.ms, 0), ALLOW_ALL
        )

    def _send_request(self, payload: AnyPayload, timeout_ms: int, done: Any) -> None:
        assert isinstance(payload, TopicsPayload)
        names = [t.name for t in payload.items]
        self.forwarded.append((payload.KIND, names))
        done(RequestCompleted("r", 0, "", {"results": [{"name": n, "error": 0} for n in names]}))

    def create(self, version: int, **partitions: int) -> tuple[list[int], int, FakeConnection]:
        """Error codes by topic, the reported throttle time, and the connection."""
        r = m.CreateTopicsRequest
        topics = [r.CreatableTopic(name=n, num_partitions=p, replication_factor=1) for n, p in partitions.items()]
        requested, caller = call(ApiKey.CREATE_TOPICS, version, r(topics=topics, timeout_ms=1_000))
        self.api.create_topics(requested)
        response = decode_reply(caller, ApiKey.CREATE_TOPICS, version)
        assert [t.name for t in response.topics] == list(partitions)
        return [t.error_code for t in response.topics], response.throttle_time_ms, caller


def test_a_token_bucket_has_eleven_seconds_of_the_rate_and_is_refilled() -> None:
    it = MutationTokens(RATE, 0)
    assert (it.left, it.wait_ms(RATE)) == (22.0, 0)
    it.left -= 30
    assert it.wait_ms(RATE) == 4_000
    it.fill(RATE, 1_000)
    assert it.wait_ms(RATE) == 3_000
    it.fill(RATE, 1_000_000)
    assert it.left == 22.0


def test_mutations_above_the_rate_are_rejected_until_the_bucket_is_refilled() -> None:
    it = Admin()
    assert it.create(6, a=10, b=14, c=1)[:2] == ([0, 0, 89], 1_000), (
        "24 of 22: the one that goes over is let in, the next is not"
    )
    assert it.forwarded == [("create_topics", ["a", "b"])]
    codes, wait, caller = it.create(7, d=1)
    assert (codes, wait, caller.muted) == ([89], 1_000, 1_000)
    it.ms += 999
    assert it.create(6, d=1)[0] == [89]
    it.ms += 1
    assert it.create(6, d=1)[:2] == ([0], 500), "an empty bucket takes one more below zero"


def test_an_older_client_is_served_and_throttled() -> None:
    it = Admin()
    codes, wait, caller = it.create(5, a=40)
    assert (codes, wait, caller.muted) == ([0], 9_000, 9_000)
    assert it.create(5, b=2)[:2] == ([0], 10_000)
    assert [names for _, names in it.forwarded] == [["a"], ["b"]]


def test_other_clients_are_not_throttled_and_requests_without_mutations_are_free() -> None:
    for it in (Admin(None), Admin("bob")):
        assert it.create(6, a=5_000)[:2] == ([0], 0)
    it = Admin()
    assert it.create(6, m=5_000)[:2] == ([0], 0), "it is there already: the controller says so"


@pytest.mark.parametrize(("version", "code"), [(6, 89), (4, 0)])
def test_deleted_partitions_count_too(version: int, code: int) -> None:
    it = Admin()
    it.create(6, a=16)
    for expected in (0, code):
        r = m.DeleteTopicsRequest
        body = r(topics=[r.DeleteTopicState(name="m")]) if version >= 6 else r(topic_names=["m"])
        requested, caller = call(ApiKey.DELETE_TOPICS, version, body)
        it.api.delete_topics(requested)
        response = decode_reply(caller, ApiKey.DELETE_TOPICS, version)
        assert (response.responses[0].name, response.responses[0].error_code) == ("m", expected)
        assert response.throttle_time_ms == caller.muted > 0


@pytest.mark.parametrize(("version", "code"), [(3, 89), (2, 0)])
def test_added_partitions_count_too(version: int, code: int) -> None:
    it = Admin()
    for count, expected in ((33, 0), (34, code)):
        r = m.CreatePartitionsRequest
        requested, caller = call(
            ApiKey.CREATE_PARTITIONS, version, r(topics=[r.CreatePartitionsTopic(name="m", count=count)])
        )
        it.api.create_partitions(requested)
        response = decode_reply(caller, ApiKey.CREATE_PARTITIONS, version)
        assert (response.results[0].error_code, response.throttle_time_ms == caller.muted > 0) == (expected, True)
