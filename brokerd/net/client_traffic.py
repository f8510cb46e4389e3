"""The client of one connection: its client id and software, the rates of its requests and bytes, and the topics that it writes and reads."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.messages import ProduceRequest

WINDOW_MS = 10_000
"""Milliseconds between two recorded values of the counters. A rate is the average over one to two of these windows, like the rates of quotas."""
NEW_MS = 1_000
"""Minimum time in milliseconds over which the rate of a new connection is averaged."""

TOPICS_MAX = 200
"""Maximum number of topics that are counted for one connection in each direction. Later ones are not counted."""


@dataclass(frozen=True, slots=True)
class TrafficRates:
    """Metrics of a client per second. `received_bytes`: bytes of requests. `sent_bytes`: bytes of responses. `cold_bytes`: bytes that were loaded from the
    disk for responses."""

    requests: float = 0.0
    received_bytes: float = 0.0
    sent_bytes: float = 0.0
    cold_bytes: float = 0.0


IDLE = TrafficRates()


class TopicBytes:
    """Bytes of record batches by topic, in one direction."""

    __slots__ = ("_last", "_previous", "bytes")

    def __init__(self, now_ms: int) -> None:
        self.bytes: dict[object, int] = {}
        """{name, or id since Produce 13: bytes since the connection was accepted}. Fetches have names only."""
        self._last: tuple[int, dict[object, int]] = (now_ms, {})
        self._previous: tuple[int, dict[object, int]] = (now_ms, {})

    def add(self, key: object, size: int, now_ms: int) -> None:
        """Count the bytes of a request or a response for one topic."""
        counts = self.bytes
        if now_ms - self._last[0] >= WINDOW_MS:
            self._previous, self._last = self._last, (now_ms, counts.copy())
        before = counts.get(key)
        if before is not None:
            counts[key] = before + size
        elif len(counts) < TOPICS_MAX:
            counts[key] = size

    def total(self, *keys: object) -> int:
        """Bytes for a topic, whose `keys` are its name and its id."""
        return sum(self.bytes.get(key, 0) for key in keys)

    def per_second(self, *keys: object, now_ms: int) -> float:
        """Bytes per second over one to two windows. Zero without bytes for two windows."""
        if now_ms - self._last[0] >= 2 * WINDOW_MS:
            return 0.0
        at_ms, before = self._previous
        return (self.total(*keys) - sum(before.get(key, 0) for key in keys)) * 1_000 / max(now_ms - at_ms, NEW_MS)


class ClientTraffic:
    """Counters since the connection was accepted. The owner increases `sent_bytes`."""

    __slots__ = (
        "_last",
        "_previous",
        "client_id",
        "cold_bytes",
        "fetched",
        "produced",
        "received_bytes",
        "requests",
        "sent_bytes",
        "software",
    )

    def __init__(self, now_ms: int) -> None:
        self.requests = self.received_bytes = self.sent_bytes = self.cold_bytes = 0
        self._last = self._previous = (now_ms, 0, 0, 0, 0)
        self.client_id = ""
        """Client id of the last request."""
        self.produced: TopicBytes | None = None
        """Batches of Produce requests, rejected ones included. None before the first request."""
        self.fetched: TopicBytes | None = None
        """Batches in the responses to consumers, also of share groups. None before the first batch."""
        self.software = ("", "")
        """Name and version (KIP-511). Empty for older clients."""

    def add_request(self, client_id: str, size: int, now_ms: int) -> None:
        self.client_id = client_id
        if now_ms - self._last[0] >= WINDOW_MS:
            counters = self.requests, self.received_bytes, self.sent_bytes, self.cold_bytes
            self._previous, self._last = self._last, (now_ms, *counters)
        self.requests += 1
        self.received_bytes += size

    def add_produced(self, body: ProduceRequest, now_ms: int) -> None:
        """Count a request for the topics that it contains."""
        produced = self.produced
        if produced is None:
            produced = self.produced = TopicBytes(now_ms)
        for topic in body.topic_data:
            size = 0
            for part in topic.partition_data:
                if part.records is not None:
                    size += len(part.records)
            produced.add(topic.name or topic.topic_id, size, now_ms)

    def add_fetched(self, topic: str, size: int, now_ms: int) -> None:
        """Count the record batches of one partition in a response."""
        fetched = self.fetched
        if fetched is None:
            fetched = self.fetched = TopicBytes(now_ms)
        fetched.add(topic, size, now_ms)

    def add_cold(self, size: int) -> None:
        self.cold_bytes += size

    def rates(self, now_ms: int) -> TrafficRates:
        """Zero without a request for two windows."""
        if now_ms - self._last[0] >= 2 * WINDOW_MS:
            return IDLE
        at_ms, requests, received, sent, cold = self._previous
        seconds = max(now_ms - at_ms, NEW_MS) / 1000
        return TrafficRates(
            (self.requests - requests) / seconds,
            (self.received_bytes - received) / seconds,
            (self.sent_bytes - sent) / seconds,
            (self.cold_bytes - cold) / seconds,
        )
