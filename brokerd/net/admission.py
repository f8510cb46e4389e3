"""How many connections a broker takes: in all, per address, per second (KIP-402, KIP-612). All its listeners share one.

Law: an address over its limit is closed at once, one over its rate after the time that it has to wait; the rate of all delays everybody, as
Kafka's acceptors do. Called by `listener`. Must not come in: sockets.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

RATE_BURST_S = 1
"""Seconds' worth of connections that may come at once."""
ADDRESSES_MAX = 10_000
"""Whose rates are remembered; the one unused for longest is forgotten."""


WAIT_MS_MAX = 10_000
"""As long as Kafka's window of a rate: longer nobody is kept."""


class Refusal(NamedTuple):
    """Why a connection cannot stay, and for how long it is kept before it is closed: who hears no end at once does not come again at once."""

    why: str
    wait_ms: int = 0


class Admission:
    """`per_ip` holds for each address that `overrides` does not name. `rate` in connections per second."""

    def __init__(self, total: int, per_ip: int, overrides: Mapping[str, int], rate: int) -> None:
        self.limit(total, per_ip, overrides, rate)
        self.rates: Mapping[str | None, float] = {}
        """Connections per second by address, under None of every other; what is not there has no limit. Set anew when a quota changes."""
        self._rooms: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._open: Counter[str] = Counter()
        self._count = 0
        self._room, self._room_ms = float(rate) * RATE_BURST_S, 0

    def limit(self, total: int, per_ip: int, overrides: Mapping[str, int], rate: int) -> None:
        """New limits, for who comes from now on."""
        self._total, self._per_ip, self._overrides, self._rate = total, per_ip, overrides, rate

    def delay_ms(self, now_ms: int) -> int:
        """How long the next connection has to wait in the system's queue; 0: it may come, and counts."""
        if self._rate <= 0:
            return 0
        self._room = min(self._rate * RATE_BURST_S, self._room + (now_ms - self._room_ms) * self._rate / 1_000)
        self._room_ms = now_ms
        if self._room < 1:
            return max(1, round((1 - self._room) * 1_000 / self._rate))
        self._room -= 1
        return 0

    def problem(self, ip: str, now_ms: int) -> Refusal | None:
        """Why it cannot stay. None: it counts until `left`."""
        if self._count >= self._total:
            return Refusal(f"max.connections ({self._total}) reached")
        most = self._overrides.get(ip, self._per_ip)
        if self._open[ip] >= most:
            return Refusal(f"max.connections.per.ip ({most}) reached")
        rate = self.rates.get(ip, self.rates.get(None))
        if rate is not None and (wait_ms := self._wait_ms(ip, rate, now_ms)):
            return Refusal(f"connection_creation_rate ({rate:g}) reached", wait_ms)
        self._open[ip] += 1
        self._count += 1
        return None

    def _wait_ms(self, ip: str, rate: float, now_ms: int) -> int:
        """Until this address has room for one more; 0: it has, and has taken it."""
        burst = max(1.0, rate * RATE_BURST_S)
        room, at_ms = self._rooms.pop(ip, (burst, now_ms))
        room = min(burst, room + (now_ms - at_ms) * rate / 1_000)
        self._rooms[ip] = (room - 1 if room >= 1 else room, now_ms)
        if len(self._rooms) > ADDRESSES_MAX:
            self._rooms.popitem(last=False)
        return 0 if room >= 1 else min(WAIT_MS_MAX, max(1, round((1 - room) * 1_000 / rate)))

    def left(self, ip: str) -> None:
        self._count -= 1
        self._open[ip] -= 1
        if not self._open[ip]:
            del self._open[ip]
