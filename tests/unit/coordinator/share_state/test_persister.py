"""The client of the share coordinators: retries, final errors, and requests that are not needed any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from brokerd.coordinator.share_state.persister import RETRIES_MAX, SharePersister, request_all
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import StateBatch, StateUpdate
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode

KEY = SharePartitionKey("g", UUID(int=1), 0)


class Network:
    """Share coordinators that answer with the given errors in order. None: no response."""

    def __init__(self, *errors: int | None) -> None:
        self.errors = list(errors)
        self.sent: list[Any] = []
        self.leader = 2
        self.persister = SharePersister(self.send, lambda key: self.leader, self.later)

    def later(self, ms: int, call: Callable[[Any], None]) -> None:
        call(None)

    def send(self, broker_id: int, key: int, version: int, body: Any, done: Callable[[Any], None]) -> None:
        self.sent.append(body)
        error = self.errors.pop(0) if self.errors else 0
        if error is None:
            done(None)
            return
        r = m.ReadShareGroupStateResponse
        batches = [r.StateBatch(first_offset=1, last_offset=2, delivery_state=2, delivery_count=3)]
        part = r.PartitionResult(partition=0, error_code=error, state_epoch=4, start_offset=1, state_batches=batches)
        done(r(results=[r.ReadStateResult(topic_id=KEY.topic_id, partitions=[part])]))

    def write(self, needed: Callable[[], bool] = lambda: True) -> int:
        errors: list[int] = []
        self.persister.write(KEY, 4, StateUpdate(1, 5, (StateBatch(5, 6, 0, 1),), 0), errors.append, needed)
        return errors[0]


def test_a_read_is_repeated_until_a_coordinator_answers() -> None:
    network = Network(ErrorCode.NOT_COORDINATOR, None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    responses: list[Any] = []
    network.persister.read(KEY, 9, lambda error, state: responses.append((error, state)))
    ((error, state),) = responses
    assert error == 0 and len(network.sent) == 4
    assert (state.state_epoch, state.leader_epoch, state.start, state.batches) == (4, 9, 1, (StateBatch(1, 2, 2, 3),))


def test_a_request_that_is_not_a_write_ends_with_an_error() -> None:
    network = Network()
    network.leader = -1
    responses: list[int] = []
    network.persister.initialize(KEY, 1, -1, responses.append)
    assert responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and not network.sent
    network = Network(*[None] * RETRIES_MAX)
    network.persister.delete(KEY, responses.append)
    assert responses[1] == ErrorCode.NETWORK_EXCEPTION and len(network.sent) == RETRIES_MAX


def test_a_write_is_repeated_while_it_is_needed() -> None:
    network = Network(*[None] * (2 * RETRIES_MAX))
    assert network.write() == 0
    network = Network(*[None] * 10)
    assert network.write(lambda: len(network.sent) < 3) == ErrorCode.NETWORK_EXCEPTION
    assert len(network.sent) == 3
    assert Network(ErrorCode.FENCED_STATE_EPOCH).write() == ErrorCode.FENCED_STATE_EPOCH


def test_all_errors_are_reported_together() -> None:
    responses: list[Any] = []
    other = SharePartitionKey("g", UUID(int=1), 1)
    request_all([KEY, other], lambda place, done: done(place.partition), responses.append)
    request_all([], lambda place, done: done(0), responses.append)
    assert responses == [{KEY: 0, other: 1}, {}]
