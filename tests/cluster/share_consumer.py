"""A share consumer on the wire package, for tests of whole clusters: one thread, one blocking connection to each broker.

It records every delivery and every confirmed acknowledgement with its time, so that a test can judge them. It acknowledges each record by itself.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from brokerd.sharing.delivery import AcknowledgeType
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import batches, records_of
from tests.cluster.local import LocalCluster

TIMEOUT_S = 15.0
FETCH_MS = 300


class ConnectionLost(Exception):
    """The connection or the response is lost: the outcome of the request is unknown."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record that was handed out. Times are monotonic seconds."""

    member: str
    partition: int
    offset: int
    value: str
    count: int
    received_s: float


@dataclass(slots=True)
class Session:
    epoch: int = 0
    partitions: set[int] = field(default_factory=set)


class ShareMember:
    """`decide(delivery)` returns how the member acknowledges a record. None: it does not, and the lock ends by its time-out."""

    def __init__(
        self, cluster: LocalCluster, group: str, topic: str, decide: Any = None, *, records_max: int = 20
    ) -> None:
        self.cluster, self.group, self.topic, self.records_max = cluster, group, topic, records_max
        self.decide = decide or (lambda delivery: AcknowledgeType.ACCEPT)
        self.member_id, self.member_epoch = str(uuid4()), 0
        self.assigned: set[int] = set()
        self.deliveries: list[Delivery] = []
        self.confirmed: list[tuple[Delivery, AcknowledgeType, float]] = []
        self.rejected: list[tuple[Delivery, int]] = []
        self.unknown: list[Delivery] = []
        self.problem: BaseException | None = None
        self.ends_s: float | None = None
        """From this time on (monotonic seconds) the member leaves or has crashed: its locks end."""
        self._connections: dict[tuple[str, int], socket.socket] = {}
        self._sessions: dict[int, Session] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[int, int] = {}
        self._topic_id = UUID(int=0)
        self._beat_at = 0.0
        self._stop, self._crash = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(60)
        if self.problem is not None:
            raise AssertionError("the member failed") from self.problem

    def crash(self) -> None:
        """Stop without leaving the group and without closing the share sessions, as a killed process does."""
        self._crash.set()
        self._thread.join(60)

    # -- requests ------------------------------------------------------------------------------------------------------
    def _send_request(self, address: tuple[str, int], key: ApiKey, version: int, body: Any) -> Any:
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = socket.create_connection(address, TIMEOUT_S)
            connection.sendall(framing.encode_request(key, version, 1, "share-test", body))
            size = struct.unpack(">i", self._read_exactly(connection, 4))[0]
            return framing.decode_response(key, version, memoryview(self._read_exactly(connection, size)))[1]
        except OSError as e:
            gone = self._connections.pop(address, None)
            if gone is not None:
                gone.close()
            raise ConnectionLost(str(e)) from e

    @staticmethod
    def _read_exactly(connection: socket.socket, size: int) -> bytes:
        out = b""
        while len(out) < size:
            piece = connection.recv(size - len(out))
            if not piece:
                raise ConnectionResetError("closed by the broker")
            out += piece
        return out

    def _send_to_any(self, key: ApiKey, version: int, body: Any) -> Any:
        for port in self.cluster.ports.values():
            try:
                return self._send_request(("127.0.0.1", port), key, version, body)
            except ConnectionLost:
                continue
        raise ConnectionLost("no broker answers")

    def _refresh(self) -> None:
        topics = [m.MetadataRequest.MetadataRequestTopic(name=self.topic)]
        response = self._send_to_any(ApiKey.METADATA, 12, m.MetadataRequest(topics=topics))
        self._brokers = {b.node_id: (b.host, b.port) for b in response.brokers}
        self._topic_id = response.topics[0].topic_id
        self._leaders = {p.partition_index: p.leader_id for p in response.topics[0].partitions}

    def _heartbeat(self, epoch: int) -> int:
        """Returns the error."""
        find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        found = self._send_to_any(ApiKey.FIND_COORDINATOR, 4, find).coordinators[0]
        if found.error_code:
            return int(found.error_code)
        body = m.ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=[self.topic] if epoch == 0 else None,
        )
        response = self._send_request((found.host, found.port), ApiKey.SHARE_GROUP_HEARTBEAT, 1, body)
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.member_epoch = 0
        elif not response.error_code:
            self.member_epoch = response.member_epoch
            self._beat_at = time.monotonic() + response.heartbeat_interval_ms / 1000
            if response.assignment is not None:
                self.assigned = {p for t in response.assignment.topic_partitions for p in t.partitions}
        return int(response.error_code)

    # -- the loop ------------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self._crash.is_set():
                try:
                    self._run_iteration()
                except ConnectionLost:
                    self._sessions.clear()
                    self._leaders.clear()
                    self._crash.wait(0.1)
            self.ends_s = time.monotonic()
            if not self._crash.is_set():
                self._leave()
        except BaseException as e:
            self.problem = e
        finally:
            for connection in self._connections.values():
                connection.close()

    def _leave(self) -> None:
        try:
            for broker_id, session in self._sessions.items():
                body = m.ShareAcknowledgeRequest(group_id=self.group, member_id=self.member_id, share_session_epoch=-1)
                if session.epoch and broker_id in self._brokers:
                    self._send_request(self._brokers[broker_id], ApiKey.SHARE_ACKNOWLEDGE, 2, body)
            self._heartbeat(-1)
        except ConnectionLost:
            return

    def _run_iteration(self) -> None:
        if time.monotonic() >= self._beat_at and self._heartbeat(self.member_epoch):
            self._crash.wait(0.1)
            return
        if not self.assigned <= self._leaders.keys():
            self._refresh()
        if not self.assigned:
            self._crash.wait(0.05)
        for broker_id in sorted({self._leaders.get(p, -1) for p in self.assigned}):
            if broker_id in self._brokers:
                self._fetch(broker_id, {p for p in self.assigned if self._leaders.get(p) == broker_id})
            else:
                self._leaders.clear()
                self._crash.wait(0.1)

    def _fetch(self, broker_id: int, partitions: set[int]) -> None:
        session = self._sessions.setdefault(broker_id, Session())
        q = m.ShareFetchRequest
        new, gone = sorted(partitions - session.partitions), sorted(session.partitions - partitions)
        body = q(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=FETCH_MS,
            min_bytes=1,
            max_records=self.records_max,
            batch_size=self.records_max,
            share_acquire_mode=1,
            topics=[
                q.FetchTopic(topic_id=self._topic_id, partitions=[q.FetchPartition(partition_index=p) for p in new])
            ]
            if new
            else [],
            forgotten_topics_data=[q.ForgottenTopic(topic_id=self._topic_id, partitions=gone)] if gone else [],
        )
        response = self._send_request(self._brokers[broker_id], ApiKey.SHARE_FETCH, 2, body)
        if response.error_code:
            self._sessions.pop(broker_id)
            self._crash.wait(0.1)
            return
        session.epoch, session.partitions = session.epoch + 1, set(partitions)
        found: list[Delivery] = []
        for data in (p for t in response.responses for p in t.partitions):
            if data.error_code:
                self._leaders.clear()
                self._crash.wait(0.1)
            counts = {
                o: a.delivery_count for a in data.acquired_records for o in range(a.first_offset, a.last_offset + 1)
            }
            raw = bytes(data.records or b"")
            for at, header in batches(raw):
                for record in records_of(raw, at, header):
                    if record.offset in counts:
                        value = (record.value or b"").decode()
                        count, now = counts[record.offset], time.monotonic()
                        found.append(Delivery(self.member_id, data.partition_index, record.offset, value, count, now))
        self.deliveries += found
        if found:
            self._acknowledge(broker_id, session, found)

    def _acknowledge(self, broker_id: int, session: Session, found: list[Delivery]) -> None:
        decided = [(d, kind) for d in found if (kind := self.decide(d)) is not None]
        if self._crash.is_set() or not decided:
            return
        q = m.ShareAcknowledgeRequest
        parts = [
            q.AcknowledgePartition(
                partition_index=p,
                acknowledgement_batches=[
                    q.AcknowledgementBatch(first_offset=d.offset, last_offset=d.offset, acknowledge_types=[kind])
                    for d, kind in decided
                    if d.partition == p
                ],
            )
            for p in sorted({d.partition for d, _ in decided})
        ]
        body = q(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            topics=[q.AcknowledgeTopic(topic_id=self._topic_id, partitions=parts)],
        )
        try:
            response = self._send_request(self._brokers[broker_id], ApiKey.SHARE_ACKNOWLEDGE, 2, body)
        except ConnectionLost:
            self.unknown += [d for d, _ in decided]
            raise
        session.epoch += 1
        if response.error_code:
            self.rejected += [(d, int(response.error_code)) for d, _ in decided]
            self._sessions.pop(broker_id, None)
            return
        errors = {p.partition_index: int(p.error_code) for t in response.responses for p in t.partitions}
        for d, kind in decided:
            if errors[d.partition]:
                self.rejected.append((d, errors[d.partition]))
            else:
                self.confirmed.append((d, kind, time.monotonic()))
