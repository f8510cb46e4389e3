"""Connection limits: total, per IP address, and creation rates (KIP-402, KIP-612). Shared by all listeners of a broker.

A connection above the limit of its address is closed immediately. A connection above the rate of its address is closed after a delay. The total rate delays all
connections, as in Kafka. Does not contain sockets.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from brokerd.net.rejections import Rejections

RATE_BURST_S = 1
"""Length of a burst in seconds: as many connections as the rate permits in this time are accepted immediately."""
ADDRESSES_MAX = 10_000
"""Maximum number of addresses with a stored rate. The least recently used one is removed."""


WAIT_MS_MAX = 10_000
"""Maximum delay of a connection: Kafka's quota window."""


class AdmissionRejection(NamedTuple):
    """The reason why a connection is rejected, and the delay in ms before it is closed. The delay prevents immediate reconnects."""

    reason: str
    wait_ms: int = 0


class Admission:
    """`per_ip` is the limit of each address without an entry in `overrides`. `rate` in connections per second."""

    def __init__(
        self, total: int, per_ip: int, overrides: Mapping[str, int], rate: int, rejections: Rejections | None = None
    ) -> None:
        self.limit(total, per_ip, overrides, rate)
        self.rejections = rejections or Rejections()
        """Counters of rejected connections of all listeners."""
        self.rates: Mapping[str | None, float] = {}
        """Quotas: {address: connections per second}. The key None is the default of other addresses. An address without an entry has no limit."""
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._open: Counter[str] = Counter()
        self._count = 0
        self._tokens, self._tokens_ms = float(rate) * RATE_BURST_S, 0

    def limit_rates(self, rates: Mapping[str | None, float]) -> None:
        """Replace the quotas of connection rates, see `rates`."""
        self.rates = rates

    def limit(self, total: int, per_ip: int, overrides: Mapping[str, int], rate: int) -> None:
        """Change the limits for new connections."""
        self._total, self._per_ip, self._overrides, self._rate = total, per_ip, overrides, rate

    def delay_ms(self, now_ms: int) -> int:
        """The delay in ms of the next connection in the listen queue. If it is 0, the connection is accepted and counted."""
        if self._rate <= 0:
            return 0
        self._tokens = min(self._rate * RATE_BURST_S, self._tokens + (now_ms - self._tokens_ms) * self._rate / 1_000)
        self._tokens_ms = now_ms
        if self._tokens < 1:
            return max(1, round((1 - self._tokens) * 1_000 / self._rate))
        self._tokens -= 1
        return 0

    def problem(self, ip: str, now_ms: int) -> AdmissionRejection | None:
        """Return the reason why a connection is rejected. None if it is accepted; then it counts until `left` is called."""
        if self._count >= self._total:
            return AdmissionRejection(f"max.connections ({self._total}) reached")
        most = self._overrides.get(ip, self._per_ip)
        if self._open[ip] >= most:
            return AdmissionRejection(f"max.connections.per.ip ({most}) reached")
        rate = self.rates.get(ip, self.rates.get(None))
        if rate is not None and (wait_ms := self._wait_ms(ip, rate, now_ms)):
            return AdmissionRejection(f"connection_creation_rate ({rate:g}) reached", wait_ms)
        self._open[ip] += 1
        self._count += 1
        return None

    def _wait_ms(self, ip: str, rate: float, now_ms: int) -> int:
        """The delay in ms of a connection of this address because of its rate. If it is 0, the connection is accepted and counted."""
        burst = max(1.0, rate * RATE_BURST_S)
        tokens, at_ms = self._buckets.pop(ip, (burst, now_ms))
        tokens = min(burst, tokens + (now_ms - at_ms) * rate / 1_000)
        self._buckets[ip] = (tokens - 1 if tokens >= 1 else tokens, now_ms)
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        return 0 if tokens >= 1 else min(WAIT_MS_MAX, max(1, round((1 - tokens) * 1_000 / rate)))

    def connection_closed(self, ip: str) -> None:
        self._count -= 1
        self._open[ip] -= 1
        if not self._open[ip]:
            del self._open[ip]
