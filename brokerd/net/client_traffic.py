"""The client of one connection: its client id and software, and the rates of its requests and bytes."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_MS = 10_000
"""Milliseconds between two recorded values of the counters. A rate is the average over one to two of these windows, like the rates of quotas."""
NEW_MS = 1_000
"""Minimum time in milliseconds over which the rate of a new connection is averaged."""


@dataclass(frozen=True, slots=True)
class TrafficRates:
    """Metrics of a client per second. `received_bytes`: bytes of requests. `sent_bytes`: bytes of responses. `cold_bytes`: bytes that were loaded from the
    disk for responses."""

    requests: float = 0.0
    received_bytes: float = 0.0
    sent_bytes: float = 0.0
    cold_bytes: float = 0.0


IDLE = TrafficRates()


class ClientTraffic:
    """Counters since the connection was accepted. The owner increases `sent_bytes`."""

    __slots__ = (
        "_last",
        "_previous",
        "client_id",
        "cold_bytes",
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
        self.software = ("", "")
        """Name and version (KIP-511). Empty for older clients."""

    def add_request(self, client_id: str, size: int, now_ms: int) -> None:
        self.client_id = client_id
        if now_ms - self._last[0] >= WINDOW_MS:
            counters = self.requests, self.received_bytes, self.sent_bytes, self.cold_bytes
            self._previous, self._last = self._last, (now_ms, *counters)
        self.requests += 1
        self.received_bytes += size

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
