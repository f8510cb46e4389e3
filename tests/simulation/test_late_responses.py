"""A transaction coordinator's response that reaches a partition's leader late: after leadership moved away and back."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.controller.events import DesiredAssignment
from tests.simulation.cluster import Cluster
from tests.simulation.exactly_once import is_decided
from tests.simulation.network import SimPeer
from tests.simulation.transactors import LEDGER, Ledger, Transactional
from tests.simulation.world import S, World

PLACE = (LEDGER, 0)
REQUEST_TIMEOUT_MS = 30_000
"""Kafka's default: the producer's connection stays open while its batch waits. A batch of a closed connection is not written."""


class Aborter(Transactional):
    """Writes one record in a transaction of the first kind, gets no response, and aborts when `abort` is called."""

    def send_request(self, broker_id: int, key: int, version: int, body: Any, done: Any) -> None:
        if key != ApiKey.PRODUCE:
            super().send_request(broker_id, key, version, body, done)
            return
        # Responses of one connection keep their order, so the delayed batch has a separate connection.
        host, port = self.cluster.brokers[broker_id].address
        others, self.peers = (
            self.peers,
            {broker_id: SimPeer(self.cluster.network, self, host, port, REQUEST_TIMEOUT_MS)},
        )
        super().send_request(broker_id, key, version, body, done)
        self.peers = others

    def next(self) -> None:
        if not self.ledger.attempts:
            self.begin()
            self.write(PLACE, [b"late"], lambda: None)

    def abort(self) -> None:
        self.enter(lambda: self.end(False))

    def on_ended(self, commit: bool) -> None:
        self.idle = True


def delay_responses(verification: Any) -> list[tuple[Any, ErrorCode]]:
    """From now on the responses of coordinators, each with the callback that waits for it, are delayed."""
    delayed: list[tuple[Any, ErrorCode]] = []
    send_request = verification._send

    def send_and_delay(*query: Any) -> None:
        *what, done = query
        send_request(*what, lambda error: delayed.append((done, error)))

    verification._send = send_and_delay
    return delayed


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_response_for_an_earlier_leader_epoch_opens_no_transaction(seed: int) -> None:
    world = World(seed)
    cluster = Cluster(world, brokers=3, controllers=1)
    topic_id = cluster.want_topic(LEDGER, 2, 3, min_insync_replicas="2")
    for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
        cluster.want_topic(name, 1, 3, min_insync_replicas="2")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    tp = TopicPartition(topic_id, 0)

    def leader() -> int:
        state = cluster.image.partition(tp)
        assert state is not None
        return state.leader

    def prefer(replicas: tuple[int, ...]) -> None:
        state = cluster.image.partition(tp)
        assert state is not None
        cluster.deliver_desired(DesiredAssignment(topic_id, 0, replicas, state.assignment_generation, f"to {replicas}"))
        cluster.run_until(lambda: leader() == replicas[0] and cluster.is_settled(), 30, f"broker {replicas[0]} to lead")

    first = leader()
    order = (first, *(b for b in cluster.brokers if b != first))
    node = cluster.brokers[first]
    delayed = delay_responses(node.broker.transaction_verification)
    producer = Aborter(cluster, Ledger(), "late", "id-late", 1)
    cluster.run_until(lambda: bool(delayed), 20, "the coordinator's response")
    assert delayed[0][1] == ErrorCode.NONE
    prefer((*order[1:], first))
    producer.abort()
    cluster.run_until(lambda: producer.idle, 20, "the end of the transaction")
    prefer(order)
    done, error = delayed[0]
    node.enter(lambda: done(error))
    world.run(world.now_us + 2 * S)
    cluster.run_until(cluster.level, 20, "equal high watermarks")
    assert is_decided(cluster, PLACE), "a transaction stays open for ever"
