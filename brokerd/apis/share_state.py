"""The APIs of the share coordinator, which only brokers use: Initialize, Read, Write, Delete and Summary of the state of share partitions.

Invariants: each API needs CLUSTER_ACTION. A request may contain partitions of several share coordinators, so each partition has its own error code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.coordinator.share_state.coordinator import ShareCoordinator
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.coordinator.share_state.state import ShareState, StateBatch, StateUpdate
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import Struct

Start = Callable[[SharePartitionKey, Any, Callable[[Any], None]], None]
"""Start the work of one partition: (share partition, partition of the request, callback that gets the partition of the response)."""


class ShareStateApi:
    def __init__(self, coordinator: ShareCoordinator, auth: AuthHelper) -> None:
        self._coordinator, self._auth = coordinator, auth

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: self.initialize,
            ApiKey.READ_SHARE_GROUP_STATE: self.read,
            ApiKey.WRITE_SHARE_GROUP_STATE: self.write,
            ApiKey.DELETE_SHARE_GROUP_STATE: self.delete,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: self.summary,
        }

    def initialize(self, request: Request) -> None:
        response_type = m.InitializeShareGroupStateResponse

        def start(
            place: SharePartitionKey,
            partition: m.InitializeShareGroupStateRequest.PartitionData,
            reply: Callable[[Struct], None],
        ) -> None:
            def done(error: int) -> None:
                reply(response_type.PartitionResult(partition=partition.partition, error_code=error))

            self._coordinator.initialize(place, partition.state_epoch, partition.start_offset, done)

        self._run_for_each(
            request, response_type, response_type.InitializeStateResult, response_type.PartitionResult, start
        )

    def read(self, request: Request) -> None:
        response_type = m.ReadShareGroupStateResponse

        def start(
            place: SharePartitionKey,
            partition: m.ReadShareGroupStateRequest.PartitionData,
            reply: Callable[[Struct], None],
        ) -> None:
            def done(error: int, state: ShareState | None) -> None:
                result = response_type.PartitionResult(partition=partition.partition, error_code=error)
                if state is not None:
                    result.state_epoch, result.start_offset = state.state_epoch, state.start
                    result.state_batches = [
                        response_type.StateBatch(
                            first_offset=b.first,
                            last_offset=b.last,
                            delivery_state=b.state,
                            delivery_count=b.deliveries,
                        )
                        for b in state.batches
                    ]
                reply(result)

            self._coordinator.read(place, partition.leader_epoch, done)

        self._run_for_each(request, response_type, response_type.ReadStateResult, response_type.PartitionResult, start)

    def write(self, request: Request) -> None:
        response_type = m.WriteShareGroupStateResponse

        def start(
            place: SharePartitionKey,
            partition: m.WriteShareGroupStateRequest.PartitionData,
            reply: Callable[[Struct], None],
        ) -> None:
            def done(error: int) -> None:
                reply(response_type.PartitionResult(partition=partition.partition, error_code=error))

            batches = tuple(
                StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                for b in partition.state_batches
            )
            update = StateUpdate(
                partition.leader_epoch, partition.start_offset, batches, partition.delivery_complete_count
            )
            self._coordinator.write(place, partition.state_epoch, update, done)

        self._run_for_each(request, response_type, response_type.WriteStateResult, response_type.PartitionResult, start)

    def delete(self, request: Request) -> None:
        response_type = m.DeleteShareGroupStateResponse

        def start(
            place: SharePartitionKey,
            partition: m.DeleteShareGroupStateRequest.PartitionData,
            reply: Callable[[Struct], None],
        ) -> None:
            def done(error: int) -> None:
                reply(response_type.PartitionResult(partition=partition.partition, error_code=error))

            self._coordinator.delete(place, done)

        self._run_for_each(
            request, response_type, response_type.DeleteStateResult, response_type.PartitionResult, start
        )

    def summary(self, request: Request) -> None:
        response_type = m.ReadShareGroupStateSummaryResponse

        def start(
            place: SharePartitionKey,
            partition: m.ReadShareGroupStateSummaryRequest.PartitionData,
            reply: Callable[[Struct], None],
        ) -> None:
            state, error = self._coordinator.summary(place)
            result = response_type.PartitionResult(partition=partition.partition, error_code=error)
            if state is not None:
                result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
                result.start_offset, result.delivery_complete_count = state.start, state.complete_count
            reply(result)

        self._run_for_each(
            request, response_type, response_type.ReadStateSummaryResult, response_type.PartitionResult, start
        )

    def _run_for_each(
        self,
        request: Request,
        response: Callable[..., Struct],
        topic_result: Callable[..., Any],
        part_result: Callable[..., Struct],
        start: Start,
    ) -> None:
        """Start the work for each partition, and answer when all are done."""
        body = request.body
        topics = [topic_result(topic_id=t.topic_id, partitions=[]) for t in body.topics]
        authorized = self._auth.authorize(request, Operation.CLUSTER_ACTION, Resource.CLUSTER)
        left = sum(len(t.partitions) for t in body.topics)

        def reply(into: Any, result: Struct) -> None:
            nonlocal left
            into.partitions.append(result)
            left -= 1
            if not left:
                request.reply(response(results=topics))

        if not left:
            request.reply(response(results=topics))
        for into, topic in zip(topics, body.topics, strict=True):
            for p in topic.partitions:
                if not authorized or not body.group_id or p.partition < 0:
                    error = ErrorCode.INVALID_REQUEST if authorized else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                    reply(into, part_result(partition=p.partition, error_code=error))
                    continue
                place = SharePartitionKey(body.group_id, topic.topic_id, p.partition)
                start(place, p, partial(reply, into))
