"""A coordinator's view of the broker: an internal topic as a log, the coordinator of a key, and the topics of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.produce import ProduceApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, TopicCreated, TopicReady
from brokerd.cluster.model import NO_LEADER, TRANSACTION_STATE_TOPIC
from brokerd.coordinator.shard import partition_of
from brokerd.runtime.coordinator_ports import CoordinatorLookup, ImageTopics, InternalLog, coordinator_of
from brokerd.storage.nonblocking import NotInPageCache
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import AddPartitionsToTxnResponse as Response
from brokerd.wire.records import Record
from tests.simulation.disk import SimDisk
from tests.unit.apis.requests import immediate_background_work
from tests.unit.replication.test_relocations import TP, Harness


class Scene:
    """The topic `t` as an internal topic with one partition, led in epoch 0."""

    def __init__(self, read_ahead: Any = None) -> None:
        self.harness = Harness(SimDisk())
        loop: Any = SimpleNamespace(now=self.harness.now)
        verification: Any = SimpleNamespace(needed=lambda *_, add: False, is_pending=lambda *_: False)
        produce = ProduceApi(loop, self.harness.replica_manager, verification, immediate_background_work(), ALLOW_ALL)
        self.log = InternalLog("t", self.harness.replica_manager, produce, lambda: self.harness.now, read_ahead)
        self.errors: list[int] = []

    def append(self, epoch: int = 0) -> None:
        batch = records.build([Record(0, 2_000_000, b"k", b"v")])
        self.log.append(0, batch, epoch, self.errors.append)


def test_a_batch_is_appended_in_the_leader_epoch_of_the_coordinator_only() -> None:
    scene = Scene()
    scene.append()
    assert scene.errors == [0] and (scene.log.end_offset(0), scene.log.high_watermark(0)) == (1, 1)
    scene.append(epoch=1)
    assert scene.errors[1:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] and scene.log.end_offset(0) == 1


def test_the_log_belongs_to_its_leader_while_the_replica_is_online() -> None:
    scene = Scene()
    assert (scene.log.partition_count(), scene.log.leader_epoch(0), scene.log.leader_epoch(9)) == (1, 0, None)
    scene.harness.replica.offline_reason = "EIO"
    assert scene.log.leader_epoch(0) is None


def test_leadership_is_confirmed_by_the_image_or_by_the_followers() -> None:
    scene = Scene()
    assert scene.log.leadership_confirmed(0)
    scene.harness.hooks.image_is_current = lambda: False  # type: ignore[method-assign]
    assert scene.log.leadership_confirmed(0), "there are no other followers that could have elected another leader"
    scene.harness.replica_manager.produce_suspended = True
    assert not scene.log.leadership_confirmed(0)


class ReadAhead:
    blind = False

    def __init__(self) -> None:
        self.loaded: list[Callable[[], None]] = []

    def look_up(self, cold: Any, done: Callable[[], None]) -> None:
        self.loaded.append(done)


def test_a_read_from_the_disk_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read_ahead = ReadAhead()
    scene = Scene(read_ahead)
    scene.append()
    with monkeypatch.context() as patch:

        def raise_not_in_page_cache(*_: Any) -> None:
            raise NotInPageCache("t-0", lambda: None)

        patch.setattr(type(scene.harness.replica.log), "read", raise_not_in_page_cache)
        assert scene.log.read(0, 0, 1_000) is None
    assert scene.log.read(0, 0, 1_000) is None and len(read_ahead.loaded) == 1, "one load at a time"
    read_ahead.loaded[0]()
    assert scene.log.read(0, 0, 1_000)


def test_records_below_an_offset_are_deleted() -> None:
    scene = Scene()
    for _ in range(3):
        scene.append()
    scene.log.delete_below(0, 2)
    assert (scene.log.start_offset(0), scene.log.end_offset(0)) == (2, 3)


def image(name: str, partitions: int) -> Image:
    scene = Harness(SimDisk())
    made = Image()
    state = scene.image.partition(TP)
    assert state is not None
    made.apply(TopicCreated(TP.topic_id, name, 1, {}, partitions))
    for i in range(partitions):
        made.apply(PartitionChanged(TP.topic_id, i, replace(state, leader=i, leader_broker_epoch=1)))
    return made


def test_the_coordinator_of_a_key_leads_its_partition() -> None:
    it = image("__x", 5)
    assert coordinator_of(it, "__x", "key") == NO_LEADER, "the topic is not complete"
    it.apply(TopicReady(TP.topic_id))
    assert coordinator_of(it, "__x", "key") == partition_of("key", 5)
    assert coordinator_of(it, "__y", "key") == NO_LEADER


def test_a_verification_is_sent_to_the_coordinator_and_its_error_is_returned() -> None:
    replica_manager: Any = SimpleNamespace(image=image(TRANSACTION_STATE_TOPIC, 3))
    replica_manager.image.apply(TopicReady(TP.topic_id))
    sent: list[Any] = []
    client: Any = SimpleNamespace(send_request=lambda *arguments: sent.append(arguments))
    errors: list[ErrorCode] = []
    CoordinatorLookup(replica_manager, client).verify("x", 7, 1, ("t", 2), False, errors.append)
    ((broker, _, version, body, done),) = sent
    assert (broker, version) == (partition_of("x", 3), 4)
    (transaction,) = body.transactions
    assert (transaction.transactional_id, transaction.verify_only, transaction.topics[0].partitions) == ("x", True, [2])
    done(None)
    result = Response.AddPartitionsToTxnPartitionResult(partition_error_code=48)
    topic = Response.AddPartitionsToTxnTopicResult(results_by_partition=[result])
    done(Response(results_by_transaction=[Response.AddPartitionsToTxnResult(topic_results=[topic])]))
    assert errors == [ErrorCode.NETWORK_EXCEPTION, ErrorCode.INVALID_TXN_STATE]


def test_groups_subscribe_to_complete_topics_and_patterns_match_no_internal_ones() -> None:
    it = image("t", 2)
    topics = ImageTopics(lambda: it)
    assert topics.topic_named("t") is None and list(topics.names()) == []
    ready = TopicReady(TP.topic_id)
    it.apply(ready)
    topics.apply_records([ready])
    assert topics.topic_named("t") == (TP.topic_id, 2) and list(topics.names()) == ["t"] and topics.version == 1
    topics.apply_records([PartitionChanged(TP.topic_id, 0, it.topics[TP.topic_id].partitions[0])])
    assert topics.version == 1, "the change of a partition's leader changes no subscription"
    internal = image("__consumer_offsets", 1)
    internal.apply(TopicReady(TP.topic_id))
    assert list(ImageTopics(lambda: internal).names()) == []
