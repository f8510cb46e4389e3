"""Routes of the source partitions that this broker leads, with their logs, the connections to the targets and the group coordinators.

Invariant: a route runs on a partition only in the leader epoch for which this broker was elected, and only while the metadata log has it enabled.
Does not contain: the choice of records and targets (`brokerd/delivery/route_partition.py`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from uuid import UUID

from brokerd.apis.routed_appends import PRODUCE_VERSION, routed_request, routed_result
from brokerd.authz.acls import Operation
from brokerd.cluster.metadata import (
    AccessChanged,
    AccessKind,
    MetadataRecord,
    PartitionsGrown,
    TopicConfigChanged,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, NO_LEADER, Now, TopicPartition
from brokerd.cluster.routes import InvalidRoute, Route, route_of
from brokerd.delivery.route_partition import RoutePartition
from brokerd.delivery.route_port import RoutePosition, Target
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.net.loop import Loop
from brokerd.replication.replica import Replica
from brokerd.runtime.coordinator_ports import coordinator_of
from brokerd.runtime.front_delivery import FrontDelivery, ReplicaFrontLog
from brokerd.runtime.route_principals import RoutePrincipals
from brokerd.runtime.wakeups import Wakeup
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceResponse,
)
from brokerd.wire.messages.routes import RoutedAppendRequestData

log = logging.getLogger(__name__)

COMMIT_VERSION = FETCH_VERSION = 8
"""Versions of OffsetCommit and OffsetFetch between brokers."""
TIMEOUT_MS = 5_000
BUFFERED_BYTES_TOTAL_MAX = 128 * 1024 * 1024
"""Limit of the bytes of records that wait for their target partitions, over all routes of this broker. At this limit a route reads only if none of its records
wait."""


class ReplicaRoutePort:
    """`RoutePort` of a replica that this broker leads in `epoch`."""

    def __init__(self, replica: Replica, topic: str, epoch: int, group: str, routing: Routing) -> None:
        self.log = ReplicaFrontLog(replica, epoch, routing.delivery)
        self._replica, self._topic, self._epoch = replica, topic, epoch
        self._group, self._routing = group, routing
        self._errors: dict[TopicPartition | None, ErrorCode] = {}
        """The last error of each target partition, and of the group coordinator (None). Only a changed error is logged."""
        self._denied: set[tuple[str, Operation]] = set()
        """The topics and operations that the principal lacked last. Only a change is logged."""
        self.wake: Callable[[], None] = lambda: None

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset

    @property
    def has_room(self) -> bool:
        return self._routing.has_room

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        return self.log.read(offset, bytes_max, upto)

    def aborted_transactions(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        return self.log.aborted_transactions(offset, upto)

    def target(self, topic: str) -> Target | None:
        return self._routing.target(topic)

    def send(
        self,
        topic_id: UUID,
        partition: int,
        batch: bytes,
        expected: int,
        done: Callable[[ErrorCode, int, Now], None],
    ) -> None:
        tp, target = self._replica.tp, TopicPartition(topic_id, partition)
        query = RoutedAppendRequestData(expected, tp.topic_id, tp.partition, self._epoch)

        def on_response(error: ErrorCode, source_offset: int, now: Now) -> None:
            self._log(target, ErrorCode.NONE if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else error)
            done(error, source_offset, now)

        self._routing.send(target, batch, query, on_response)

    def may_read(self, principal: str) -> bool:
        return self._allowed(principal, Operation.READ, self._topic)

    def may_write(self, principal: str, topic: str) -> bool:
        return self._allowed(principal, Operation.WRITE, topic)

    def _allowed(self, principal: str, operation: Operation, topic: str) -> bool:
        allowed = self._routing.principals.allowed(principal, operation, topic)
        if allowed == ((topic, operation) in self._denied):
            (self._denied.discard if allowed else self._denied.add)((topic, operation))
            log.info(
                "permission of route changed: group=%s source=%s-%d principal=%s operation=%s topic=%s allowed=%s",
                self._group,
                self._topic,
                self._replica.tp.partition,
                principal,
                operation.name,
                topic,
                allowed,
            )
        return allowed

    def quota_limit(self, principal: str, quota: str) -> float | None:
        return self._routing.principals.quota_limit(principal, self._group, quota)

    def count_bytes(self, principal: str, quota: str, size: int, now: Now) -> int:
        return self._routing.principals.count_bytes(principal, self._group, quota, size, now)

    def fetch_position(self, done: Callable[[ErrorCode, RoutePosition, Now], None]) -> None:
        self._routing.fetch_position(self._group, self._topic, self._replica.tp.partition, done)

    def commit_position(self, position: RoutePosition, done: Callable[[ErrorCode, Now], None]) -> None:
        at = self._topic, self._replica.tp.partition, self._epoch

        def on_response(error: ErrorCode, now: Now) -> None:
            self._log(None, error)
            done(error, now)

        self._routing.commit_position(self._group, at, position, on_response)

    def _log(self, target: TopicPartition | None, error: ErrorCode) -> None:
        if self._errors.get(target, ErrorCode.NONE) == error:
            return
        self._errors[target] = error
        source = f"{self._topic}-{self._replica.tp.partition}"
        if target is None:
            log.info(
                "result of route position commits changed: group=%s source=%s error=%s", self._group, source, error.name
            )
        else:
            topic = self._routing.replica_manager.image.topics.get(target.topic_id)
            name = f"{topic.name if topic is not None else target.topic_id}-{target.partition}"
            log.info(
                "result of routed records changed: group=%s source=%s target=%s error=%s",
                self._group,
                source,
                name,
                error.name,
            )


class Routing:
    def __init__(
        self,
        delivery: FrontDelivery,
        loop: Loop,
        target_client: InterBrokerClient,
        coordinator_client: InterBrokerClient,
        principals: RoutePrincipals,
    ) -> None:
        self.principals = principals
        self.replica_manager, self.delivery, self._loop = delivery.replica_manager, delivery, loop
        self._target_client, self._coordinator_client = target_client, coordinator_client
        self._led: dict[tuple[str, int], int] = {}
        """The leader epochs of the partitions that this broker leads, by (topic, partition)."""
        self._by_source: defaultdict[str, dict[str, Route]] = defaultdict(dict)
        """The enabled routes, by source topic and name."""
        self.running: dict[tuple[str, str, int], tuple[RoutePartition, ReplicaRoutePort]] = {}
        """Route partitions by (route, source topic, partition)."""
        self.has_room = True

    # -- routes of this broker --------------------------------------------------------------------------------------------------
    def on_election(self, topic: str, partition: int, epoch: int) -> None:
        """Called when this broker leads a partition of a topic."""
        self.on_resignation(topic, partition)
        self._led[topic, partition] = epoch
        for route in self._by_source.get(topic, {}).values():
            self._start(route, partition, epoch)

    def on_resignation(self, topic: str, partition: int) -> None:
        self._led.pop((topic, partition), None)
        for name in list(self._by_source.get(topic, ())):
            self._stop(name, topic, partition)

    def image_loaded(self) -> None:
        """Called when a complete new image was loaded."""
        for name in {
            *self.replica_manager.image.access.get(AccessKind.ROUTE, {}),
            *(name for name, _, _ in self.running),
        }:
            self._on_route_changed(name)
        self._topics_changed()

    def entry_applied(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            if isinstance(record, AccessChanged) and record.kind == AccessKind.ROUTE:
                self._on_route_changed(record.key)
        if any(isinstance(r, TopicReady | TopicDeleted | PartitionsGrown | TopicConfigChanged) for r in records):
            self._topics_changed()

    def _topics_changed(self) -> None:
        for route, _ in self.running.values():
            route.topics_changed()

    def _on_route_changed(self, name: str) -> None:
        """Called when the definition of a route may have changed."""
        generation, value = self.replica_manager.image.access_to(AccessKind.ROUTE, name)
        route = None
        try:
            route = route_of(name, generation, value) if value is not None else None
        except InvalidRoute as e:
            log.error("invalid route: route=%s field=%s error=%s", name, e.field, e.reason)
        if route is not None and not route.enabled:
            route = None
        before = next((routes[name] for routes in self._by_source.values() if name in routes), None)
        if before == route:
            return
        same = (
            before is not None
            and route is not None
            and (before.source, before.route_id) == (route.source, route.route_id)
        )
        if before is not None and not same:
            for _, topic, partition in [k for k in self.running if k[0] == name]:
                self._stop(name, topic, partition)
        if before is not None:
            del self._by_source[before.source][name]
        if route is None:
            return
        self._by_source[route.source][name] = route
        if same:
            for key, (running, _) in self.running.items():
                if key[0] == name:
                    running.change(route)
            return
        for (topic, partition), epoch in self._led.items():
            if topic == route.source:
                self._start(route, partition, epoch)

    def _start(self, route: Route, partition: int, epoch: int) -> None:
        replica = self.replica_manager.find_by_name(route.source, partition)
        if replica is None:
            return
        port = ReplicaRoutePort(replica, route.source, epoch, route.group, self)
        running = RoutePartition(route, replica.tp.topic_id, partition, port)

        def tick(now: Now) -> None:
            self._tick(running, port, now)

        # A response is handled immediately. New records wait for the interval of `watch`, so that they share batches.
        front_log = port.log
        port.wake = front_log.poke = Wakeup(self._loop.call_at, lambda: self._loop.now, tick, lambda: 0).request
        self.running[route.name, route.source, partition] = running, port
        self.delivery.watch(front_log, tick)

    def _stop(self, name: str, topic: str, partition: int) -> None:
        found = self.running.pop((name, topic, partition), None)
        if found is not None:
            found[0].closed = True
            self.delivery.unwatch(found[1].log)

    def tick(self, now: Now) -> None:
        self.has_room = sum(r.buffered_bytes for r, _ in self.running.values()) < BUFFERED_BYTES_TOTAL_MAX
        for running, port in list(self.running.values()):
            self._tick(running, port, now)

    def _tick(self, running: RoutePartition, port: ReplicaRoutePort, now: Now) -> None:
        if port.log.leads:
            running.tick(now)

    # -- requests --------------------------------------------------------------------------------------------------------
    def target(self, topic: str) -> Target | None:
        state = self.replica_manager.image.topic_named(topic)
        if state is None or not state.ready:
            return None
        config = self.replica_manager.topic_config(state)
        return Target(
            state.topic_id, state.partition_count, config.max_message_bytes, recompresses=config.compression is not None
        )

    def send(
        self,
        target: TopicPartition,
        batch: bytes,
        query: RoutedAppendRequestData,
        done: Callable[[ErrorCode, int, Now], None],
    ) -> None:
        state = self.replica_manager.image.partition(target)

        def on_response(response: ProduceResponse | None) -> None:
            done(*routed_result(response), self._loop.now)

        self._target_client.send_request(
            state.leader if state is not None else NO_LEADER,
            ApiKey.PRODUCE,
            PRODUCE_VERSION,
            routed_request(target, batch, query, TIMEOUT_MS),
            on_response,
        )

    def fetch_position(
        self, group: str, topic: str, partition: int, done: Callable[[ErrorCode, RoutePosition, Now], None]
    ) -> None:
        r = OffsetFetchRequest
        topics = [r.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        body = r(groups=[r.OffsetFetchRequestGroup(group_id=group, topics=topics)])

        def on_response(response: OffsetFetchResponse | None) -> None:
            found = response.groups[0] if response is not None and response.groups else None
            if found is None or found.error_code:
                error = ErrorCode.NETWORK_EXCEPTION if found is None else ErrorCode(found.error_code)
                done(error, RoutePosition(-1, ""), self._loop.now)
                return
            at = found.topics[0].partitions[0]
            done(ErrorCode(at.error_code), RoutePosition(at.committed_offset, at.metadata or ""), self._loop.now)

        self._coordinator_client.send_request(
            self._coordinator(group), ApiKey.OFFSET_FETCH, FETCH_VERSION, body, on_response
        )

    def commit_position(
        self, group: str, at: tuple[str, int, int], position: RoutePosition, done: Callable[[ErrorCode, Now], None]
    ) -> None:
        """`at`: source topic, partition and leader epoch."""
        topic, partition, epoch = at
        r = OffsetCommitRequest
        part = r.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=position.offset,
            committed_leader_epoch=epoch,
            committed_metadata=position.metadata,
        )
        body = r(group_id=group, topics=[r.OffsetCommitRequestTopic(name=topic, partitions=[part])])

        def on_response(response: OffsetCommitResponse | None) -> None:
            error = ErrorCode.NETWORK_EXCEPTION
            if response is not None and response.topics:
                error = ErrorCode(response.topics[0].partitions[0].error_code)
            done(error, self._loop.now)

        self._coordinator_client.send_request(
            self._coordinator(group), ApiKey.OFFSET_COMMIT, COMMIT_VERSION, body, on_response
        )

    def _coordinator(self, group: str) -> int:
        return coordinator_of(self.replica_manager.image, GROUP_OFFSETS_TOPIC, group)
