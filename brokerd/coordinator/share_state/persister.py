"""Client of the share coordinators (Kafka: DefaultStatePersister): reads and writes the state of share partitions.

Invariants: every request completes exactly once. A write is repeated until the share coordinator has answered it or the caller does not need it any
more; repetition is harmless, because a write contains states, not changes. Does not interpret the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from brokerd.cluster.model import Now
from brokerd.coordinator.share_state.coordinator import coordinator_key
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import ShareState, StateBatch, StateUpdate
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import Struct

RETRY_MS = 100
RETRIES_MAX = 50
"""Maximum number of attempts of a request that is not a write, together 5 s."""
RETRIED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
VERSION = {ApiKey.WRITE_SHARE_GROUP_STATE: 1, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1}
"""Versions of the requests between brokers, if not 0."""

Done = Callable[[int], None]


class SendRequest(Protocol):
    def __call__(self, broker_id: int, key: int, version: int, body: Struct, done: Callable[[Any], None]) -> None: ...


class InitializationObserver(Protocol):
    """Part of `apis.share_observer`."""

    def initializes(self, place: SharePartitionKey, state_epoch: int, start: int) -> None:
        """A state epoch will start. `start` -1: where the group starts."""
        ...

    def on_initialized(self, place: SharePartitionKey, state_epoch: int) -> None:
        """The share coordinator has confirmed it."""
        ...


class SharePersister:
    """`leader_of(key)`: the broker that coordinates a share partition, or -1. `call_later(ms, call)` starts a timer."""

    def __init__(
        self,
        send: SendRequest,
        leader_of: Callable[[str], int],
        call_later: Callable[[int, Callable[[Now], None]], object],
        observer: InitializationObserver | None = None,
    ) -> None:
        self._send, self._leader_of, self._call_later, self._observer = send, leader_of, call_later, observer

    def read(self, place: SharePartitionKey, leader_epoch: int, done: Callable[[int, ShareState | None], None]) -> None:
        q = m.ReadShareGroupStateRequest
        part = q.PartitionData(partition=place.partition, leader_epoch=leader_epoch)
        body = q(group_id=place.group_id, topics=[q.ReadStateData(topic_id=place.topic_id, partitions=[part])])

        def on_response(error: int, result: m.ReadShareGroupStateResponse.PartitionResult) -> None:
            if error:
                done(error, None)
                return
            batches = tuple(
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in result.state_batches
            )
            done(ErrorCode.NONE, ShareState(result.state_epoch, leader_epoch, result.start_offset, batches))

        self._request(ApiKey.READ_SHARE_GROUP_STATE, place, body, on_response)

    def summary(self, place: SharePartitionKey, done: Callable[[int, ShareState | None], None]) -> None:
        """The state without batches."""
        q = m.ReadShareGroupStateSummaryRequest
        part = q.PartitionData(partition=place.partition, leader_epoch=-1)
        body = q(group_id=place.group_id, topics=[q.ReadStateSummaryData(topic_id=place.topic_id, partitions=[part])])

        def on_response(error: int, result: m.ReadShareGroupStateSummaryResponse.PartitionResult) -> None:
            if error:
                done(error, None)
                return
            state = ShareState(
                result.state_epoch,
                result.leader_epoch,
                result.start_offset,
                complete_count=result.delivery_complete_count,
            )
            done(ErrorCode.NONE, state)

        self._request(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, place, body, on_response)

    def write(
        self,
        place: SharePartitionKey,
        state_epoch: int,
        update: StateUpdate,
        done: Done,
        needed: Callable[[], bool],
    ) -> None:
        schema = m.WriteShareGroupStateRequest
        part = schema.PartitionData(
            partition=place.partition,
            state_epoch=state_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start,
            delivery_complete_count=update.complete_count,
            state_batches=[
                schema.StateBatch(
                    first_offset=b.first, last_offset=b.last, delivery_state=b.state, delivery_count=b.deliveries
                )
                for b in update.batches
            ],
        )
        body = schema(
            group_id=place.group_id, topics=[schema.WriteStateData(topic_id=place.topic_id, partitions=[part])]
        )
        self._request(ApiKey.WRITE_SHARE_GROUP_STATE, place, body, lambda error, _: done(error), needed)

    def initialize(self, place: SharePartitionKey, state_epoch: int, start: int, done: Done) -> None:
        """`start` -1: the leader of the partition chooses the start offset."""
        q = m.InitializeShareGroupStateRequest
        part = q.PartitionData(partition=place.partition, state_epoch=state_epoch, start_offset=start)
        body = q(group_id=place.group_id, topics=[q.InitializeStateData(topic_id=place.topic_id, partitions=[part])])
        observer = self._observer
        if observer is not None:
            observer.initializes(place, state_epoch, start)

        def on_response(error: int, _result: object) -> None:
            if observer is not None and not error:
                observer.on_initialized(place, state_epoch)
            done(error)

        self._request(ApiKey.INITIALIZE_SHARE_GROUP_STATE, place, body, on_response)

    def delete(self, place: SharePartitionKey, done: Done) -> None:
        q = m.DeleteShareGroupStateRequest
        part = q.PartitionData(partition=place.partition)
        body = q(group_id=place.group_id, topics=[q.DeleteStateData(topic_id=place.topic_id, partitions=[part])])
        self._request(ApiKey.DELETE_SHARE_GROUP_STATE, place, body, lambda error, _: done(error))

    def _request(
        self,
        key: ApiKey,
        place: SharePartitionKey,
        body: Struct,
        done: Callable[[int, Any], None],
        needed: Callable[[], bool] | None = None,
    ) -> None:
        attempts = 0

        def attempt(_now: Now | None = None) -> None:
            broker_id = self._leader_of(coordinator_key(place))
            if broker_id < 0:
                finish(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
            else:
                self._send(broker_id, key, VERSION.get(key, 0), body, on_response)

        def on_response(response: Any) -> None:
            if response is None:
                finish(ErrorCode.NETWORK_EXCEPTION, None)
                return
            result = response.results[0].partitions[0]
            finish(result.error_code, result)

        def finish(error: int, result: Any) -> None:
            nonlocal attempts
            attempts += 1
            again = needed() if needed is not None else attempts < RETRIES_MAX
            if error in RETRIED and again:
                self._call_later(RETRY_MS, attempt)
            else:
                done(error, result)

        attempt()


def request_all(
    places: Iterable[SharePartitionKey],
    start: Callable[[SharePartitionKey, Done], None],
    done: Callable[[dict[SharePartitionKey, int]], None],
) -> None:
    """Start one request for each share partition. `done` gets all error codes at the end."""
    requested = list(places)
    errors: dict[SharePartitionKey, int] = {}
    if not requested:
        done(errors)
        return

    def collect(place: SharePartitionKey) -> Done:
        def on_response(error: int) -> None:
            errors[place] = error
            if len(errors) == len(requested):
                done(errors)

        return on_response

    for place in requested:
        start(place, collect(place))
