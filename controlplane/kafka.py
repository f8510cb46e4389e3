"""The Kafka protocol at the door: what the observer samples, the deletion of a group, an unclean election, a range of one copy, how long producers wait. Over our own wire, because Kafka's admin clients
hide what replicas have (DescribeLogDirs) and keep threads of their own.

Law: every call has a deadline, and no answer is an answer of its own (NoAnswer). Called by the observer's threads and by
`services.groups`, `services.overrides`, `services.comparing` and `services.speeds`; never by a page. Records of a partition: `selectors.messages`.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from brokerd.access.certificates import CertificateError
from brokerd.access.client import NotIntroduced
from brokerd.access.client_settings import ClientSettingsError
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import WireError, decode_response, encode_request
from controlplane.client import client_settings
from controlplane.copies import Copy

CALL_SECONDS = 2.0
"""Deadline of one call: a broker that needs longer for a look-up is in trouble, and that is the news."""

PRODUCE_TIMES_SECONDS = 0.5
"""Deadline of the one call that is made each second: a later answer is the next look's."""

RESPONSE_BYTES_MAX = 64 * 1024 * 1024
"""A larger answer is not one of ours: 100,000 partitions take about 5 MB."""

LATEST, EARLIEST = -1, -2

Key = tuple[str, int]
"""(topic, partition index)"""


class NoAnswer(Exception):
    """The cluster did not answer in time: the outcome is unknown."""


class Declined(Exception):
    """The cluster answered with an error; the text says which."""


class Connection:
    """One blocking connection to one broker, opened when needed and dropped at the first trouble. One thread at a time."""

    def __init__(self, host: str, port: int, client_id: str = "weir-controlplane") -> None:
        self.host, self.port, self._client_id = host, port, client_id
        self._socket: socket.socket | ssl.SSLSocket | None = None
        self._ends: float | None = None
        """When the broker wants it proved anew who we are (monotonic seconds): a new connection does that."""
        self._correlation = 0

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float = CALL_SECONDS) -> Any:
        """The answer's body. Raises NoAnswer."""
        deadline = time.monotonic() + timeout_s
        if self._ends is not None and deadline >= self._ends:
            self.close()
        try:
            if self._socket is None:
                self._open(deadline)
            self._correlation = (self._correlation + 1) & 0x7FFFFFFF
            request = encode_request(api, version, self._correlation, self._client_id, body)
            correlation, answer = decode_response(api, version, memoryview(self._exchange(request, deadline)))
            if correlation != self._correlation:
                raise NoAnswer(f"{self.host}:{self.port} answered another question")
            return answer
        except NoAnswer:
            self.close()
            raise
        except (NotIntroduced, CertificateError, ClientSettingsError) as e:
            self.close()
            raise NoAnswer(f"{self.host}:{self.port} is not reached as WEIR_KAFKA_CONFIG says: {e}") from e
        except (OSError, WireError) as e:
            self.close()
            raise NoAnswer(f"{self.host}:{self.port} does not answer: {e or type(e).__name__}") from e

    def _open(self, deadline: float) -> None:
        """Connected, secured and introduced, as this house's client settings say."""
        client = client_settings()
        self._socket = socket.create_connection((self.host, self.port), timeout=max(0.01, deadline - time.monotonic()))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (context := client.context()) is not None:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            self._socket = context.wrap_socket(self._socket, server_hostname=self.host)
        if (introduction := client.introduction()) is not None:
            request: bytes | None = introduction.begin()
            while request is not None:
                request = introduction.heard(memoryview(self._exchange(request, deadline)))
            if introduction.lifetime_ms:
                self._ends = time.monotonic() + introduction.lifetime_ms / 1000

    def _exchange(self, request: bytes, deadline: float) -> bytearray:
        """One frame out, one frame in."""
        assert self._socket is not None
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        self._socket.sendall(request)
        (length,) = struct.unpack(">i", self._exactly(4, deadline))
        if not 0 <= length <= RESPONSE_BYTES_MAX:
            raise NoAnswer(f"{self.host}:{self.port} answered with {length} bytes; that is no Kafka broker")
        return self._exactly(length, deadline)

    def _exactly(self, count: int, deadline: float) -> bytearray:
        assert self._socket is not None
        data = bytearray(count)
        view = memoryview(data)
        while view:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            got = self._socket.recv_into(view)
            if got == 0:
                raise ConnectionResetError("connection closed")
            view = view[got:]
        return data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket, self._ends = None, None


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    partitions: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group as its coordinator described it; `committed` holds only what was ever committed."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[Member, ...]
    committed: Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """What one broker answered. `offsets` (start, end) of what it leads; `replicas` (size in bytes, records behind or None where it does not
    know) of all it holds, None = not asked this time; `space` (bytes in all, bytes free) of its directory with most room, `failed` directories,
    `lagging` copies of what it leads, by broker (end, start where that alone keeps it out of the ISR; -1 = not told): asked with these."""

    broker_id: int
    at_ms: int
    offsets: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    replicas: Mapping[Key, tuple[int, int | None]] | None = None
    groups: tuple[GroupSample, ...] = ()
    space: tuple[int, int] | None = None
    failed: tuple[str, ...] = ()
    lagging: Mapping[Key, Mapping[int, tuple[int, int]]] = field(default_factory=dict)


PARTITIONS_PER_REQUEST = 1_000
"""Asked about at once: a broker answers clients in between."""


def sample_broker(
    connection: Connection,
    broker_id: int,
    leads: Mapping[str, Sequence[int]],
    starts: dict[Key, int],
    *,
    with_sizes: bool,
) -> BrokerSample:
    """Ask one broker for everything of one look. Raises NoAnswer.

    `starts` are the start offsets of earlier looks, kept up to date here: they move seldom, and are asked for with the sizes.
    """
    offsets: dict[Key, tuple[int, int]] = {}
    if leads:
        ends = _list_offsets(connection, leads, LATEST)
        if with_sizes or not starts.keys() >= ends.keys():
            starts.clear()
            starts.update(_list_offsets(connection, leads, EARLIEST))
        offsets = {key: (min(starts[key], end), end) for key, end in ends.items() if key in starts}
    replicas, space, failed = _log_dirs(connection) if with_sizes else (None, None, ())
    lagging = _lagging(connection) if with_sizes and leads else {}
    return BrokerSample(
        broker_id=broker_id,
        at_ms=time.time_ns() // 1_000_000,
        offsets=offsets,
        replicas=replicas,
        groups=_groups(connection),
        space=space,
        failed=failed,
        lagging=lagging,
    )


def _lagging(connection: Connection) -> dict[Key, dict[int, tuple[int, int]]]:
    """Empty from a broker that does not tell."""
    answer = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, m.DescribeLogDirsRequest(topics=[], lagging=True))
    out: dict[Key, dict[int, tuple[int, int]]] = {}
    for copy in answer.lagging:
        out.setdefault((copy.topic, copy.partition_index), {})[copy.broker_id] = (copy.log_end, copy.log_start)
    return out


def _list_offsets(connection: Connection, leads: Mapping[str, Sequence[int]], timestamp: int) -> dict[Key, int]:
    wanted = [(topic, i) for topic, indexes in leads.items() for i in indexes]
    offsets: dict[Key, int] = {}
    for at in range(0, len(wanted), PARTITIONS_PER_REQUEST):
        topics: dict[str, m.ListOffsetsRequest.ListOffsetsTopic] = {}
        for name, i in wanted[at : at + PARTITIONS_PER_REQUEST]:
            topic = topics.setdefault(name, m.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(m.ListOffsetsRequest.ListOffsetsPartition(partition_index=i, timestamp=timestamp))
        answer = connection.call(
            ApiKey.LIST_OFFSETS, 5, m.ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        )
        for told in answer.topics:
            for p in told.partitions:
                if p.error_code == 0 and p.offset >= 0:
                    offsets[told.name, p.partition_index] = p.offset
    return offsets


def _log_dirs(
    connection: Connection,
) -> tuple[dict[Key, tuple[int, int | None]], tuple[int, int] | None, tuple[str, ...]]:
    """(size, records behind, None where it has not begun) of each replica, (all, free) bytes of the directory with most room (a copy lies in
    one), and those that failed."""
    answer = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, m.DescribeLogDirsRequest(topics=None))
    sound = [r for r in answer.results if r.error_code == 0]
    volumes = [(r.total_bytes, r.usable_bytes) for r in sound if r.total_bytes >= 0]
    replicas = {
        (topic.name, p.partition_index): (p.partition_size, p.offset_lag if p.offset_lag >= 0 else None)
        for result in sound
        for topic in result.topics
        for p in topic.partitions
        if not p.is_future_key
    }
    failed = tuple(r.log_dir for r in answer.results if r.error_code != 0)
    return replicas, max(volumes, key=lambda v: v[1], default=None), failed


def _groups(connection: Connection) -> tuple[GroupSample, ...]:
    listed = connection.call(ApiKey.LIST_GROUPS, 5, m.ListGroupsRequest())
    names = [g.group_id for g in listed.groups]
    if not names:
        return ()
    # Each kind is described by an API of its own; a broker that lists none of the new kind may not know that API yet.
    consumers = [g.group_id for g in listed.groups if g.group_type == "consumer"]
    classic = [n for n in names if n not in set(consumers)]
    described: list[GroupSample] = []
    if classic:
        described += _classic(connection.call(ApiKey.DESCRIBE_GROUPS, 4, m.DescribeGroupsRequest(groups=classic)))
    if consumers:
        body = m.ConsumerGroupDescribeRequest(group_ids=consumers)
        described += _consumers(connection.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, body))
    fetched = connection.call(
        ApiKey.OFFSET_FETCH,
        8,
        m.OffsetFetchRequest(
            groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=n, topics=None) for n in names]
        ),
    )
    committed: dict[str, dict[Key, int]] = {}
    for group in fetched.groups:
        if group.error_code == 0:
            committed[group.group_id] = {
                (topic.name, p.partition_index): p.committed_offset
                for topic in group.topics
                for p in topic.partitions
                if p.error_code == 0 and p.committed_offset >= 0
            }
    return tuple(replace(g, committed=committed[g.group_id]) for g in described if g.group_id in committed)


def _consumers(answer: m.ConsumerGroupDescribeResponse) -> list[GroupSample]:
    """Groups of the new protocol (KIP-848)."""
    return [
        GroupSample(
            group.group_id, group.group_state, "consumer", group.assignor_name,
            tuple(
                Member(
                    x.member_id,
                    x.client_id,
                    x.client_host.lstrip("/"),
                    tuple((t.topic_name, p) for t in x.assignment.topic_partitions for p in t.partitions),
                )
                for x in group.members
            ),
            {},
        )
        for group in answer.groups
        if group.error_code == 0
    ]  # fmt: skip


def _classic(answer: m.DescribeGroupsResponse) -> list[GroupSample]:
    out = []
    for group in answer.groups:
        # A coordinator that is loading or has just lost the group answers with an error: it is known at the next look.
        if group.error_code != 0 or group.group_state == "Dead":
            continue
        members = tuple(
            Member(
                x.member_id,
                x.client_id,
                x.client_host.lstrip("/"),
                assigned(bytes(x.member_assignment)) if group.protocol_type == "consumer" else (),
            )
            for x in group.members
        )
        out.append(
            GroupSample(
                group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, {},
            )
        )  # fmt: skip
    return out


def assigned(data: bytes) -> tuple[Key, ...]:
    """The partitions in a member's assignment (Kafka's consumer protocol: version, [topic, [partition]], user data). Empty when it
    cannot be read: clients may put there what they like."""
    try:
        (_, topics), at = struct.unpack_from(">hi", data), 6
        out: list[Key] = []
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (count,) = struct.unpack_from(">i", data, at)
            at += 4
            if not 0 <= count <= (len(data) - at) // 4:
                return ()
            out += [(name, p) for p in struct.unpack_from(f">{count}i", data, at)]
            at += 4 * count
        return tuple(out)
    except (struct.error, UnicodeDecodeError):
        return ()


def delete_group(group_id: str, timeout_s: float = 10.0) -> None:
    """Delete an empty group at its coordinator. Raises Declined or NoAnswer."""
    deadline = time.monotonic() + timeout_s
    problem = "no broker answered"
    while time.monotonic() < deadline:
        for address in settings.HOUSE.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            door = Connection(host, int(port))
            try:
                found = door.call(ApiKey.FIND_COORDINATOR, 3, m.FindCoordinatorRequest(key=group_id, key_type=0))
                if found.error_code:
                    problem = ErrorCode(found.error_code).name
                    continue
                coordinator = Connection(found.host, found.port)
                try:
                    answer = coordinator.call(ApiKey.DELETE_GROUPS, 2, m.DeleteGroupsRequest(groups_names=[group_id]))
                finally:
                    coordinator.close()
                code = ErrorCode(answer.results[0].error_code)
                if code == 0:
                    return
                if not code.retriable:
                    raise Declined(code.text)
                problem = code.name
            except NoAnswer as e:
                problem = str(e)
            finally:
                door.close()
        time.sleep(0.2)
    raise NoAnswer(f"Group {group_id!r}: {problem}.")


def elect_uncleanly(topic: str, partition: int, timeout_s: float = 15.0) -> bool:
    """Have the controller elect a leader among copies that cannot prove to be whole. False: it has one already. Raises Declined or NoAnswer."""
    wanted = m.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
    body = m.ElectLeadersRequest(election_type=1, topic_partitions=[wanted], timeout_ms=int(timeout_s * 1000))
    problem = "no broker answered"
    for address in settings.HOUSE.bootstrap.split(","):
        host, _, port = address.rpartition(":")
        door = Connection(host, int(port))
        try:
            answer = door.call(ApiKey.ELECT_LEADERS, 2, body, timeout_s)
        except NoAnswer as e:
            problem = str(e)
            continue
        finally:
            door.close()
        results = [p for t in answer.replica_election_results for p in t.partition_result]
        code = ErrorCode(
            answer.error_code or (results[0].error_code if results else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )
        if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            return code == ErrorCode.NONE
        raise Declined((results[0].error_message if results else "") or code.text)
    raise NoAnswer(f"{topic}-{partition}: {problem}.")


ANY_RACK = "weir-compares"
"""Who names a rack is answered by followers too (KIP-392); nobody lives in this one, so that the leader sends nobody elsewhere."""


def bounds(host: str, port: int, topic: str, partition: int) -> tuple[int, int]:
    """(first offset, high watermark) as the leader says. Raises NoAnswer, Declined where it does not lead."""
    door = Connection(host, port)
    try:
        found = [_list_offsets(door, {topic: [partition]}, at).get((topic, partition)) for at in (EARLIEST, LATEST)]
    finally:
        door.close()
    first, last = found
    if first is None or last is None:
        raise Declined(f"{host}:{port} does not lead {topic}-{partition}")
    return first, last


def read_copy(host: str, port: int, topic: str, partition: int, offset: int, bytes_max: int) -> Copy:
    """What this broker's own copy holds from `offset` on, leader or not. Raises NoAnswer, or Declined with the error's name."""
    wanted = m.FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    body = m.FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=bytes_max, rack_id=ANY_RACK,
        topics=[m.FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )  # fmt: skip
    door = Connection(host, port)
    try:
        answer = door.call(ApiKey.FETCH, 12, body)
    finally:
        door.close()
    told = [p for t in answer.responses for p in t.partitions]
    code = ErrorCode(answer.error_code or (told[0].error_code if told else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if code:
        raise Declined(code.name)
    return Copy(told[0].log_start_offset, told[0].high_watermark, bytes(told[0].records or b""))


def produce_times(host: str, port: int) -> list[int]:
    """How long producers waited for this broker since its start, as counts per bucket (`adaptive.BOUNDS_MS`). Raises NoAnswer, Declined where the
    broker does not tell."""
    door = Connection(host, port)
    try:
        answer = door.call(ApiKey.DESCRIBE_LOG_DIRS, 4, m.DescribeLogDirsRequest(topics=[]), PRODUCE_TIMES_SECONDS)
    finally:
        door.close()
    if not answer.produce_times:
        raise Declined(f"{host}:{port} does not tell how long producers wait")
    return list(answer.produce_times)
