"""Bytes per second in and out of partitions, topics, brokers and the cluster, from the counters of the brokers.

Invariants: a rate is the average over the time between two samples of one broker. The rates of a broker that did not respond are unknown, never zero. A
counter that became smaller has started again at zero. Does not contain rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.clients.broker_samples import BrokerSample, TrafficCounters
from controlplane.clients.group_samples import Key
from controlplane.monitoring.sample_window import SampleWindow

WINDOW_MS = 5_000
"""Minimum milliseconds between the newest sample and the sample with which it is compared. A rate covers one to two of these windows."""

DIGITS = 3
"""Significant digits of a rate. A change below them writes no row and updates no page."""

NO_COUNTERS = TrafficCounters()


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per second: appended by clients, sent to consumers, and copied between brokers: received and sent."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    replication_bytes_in: float = 0.0
    replication_bytes_out: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
            self.replication_bytes_in + other.replication_bytes_in,
            self.replication_bytes_out + other.replication_bytes_out,
        )

    def rounded(self) -> Traffic:
        """Round to DIGITS significant digits."""
        return Traffic(*(float(f"{v:.{DIGITS}g}") for v in self.values))

    @property
    def values(self) -> tuple[float, float, float, float]:
        return self.bytes_in, self.bytes_out, self.replication_bytes_in, self.replication_bytes_out


NONE = Traffic()


@dataclass(slots=True)
class _BrokerTraffic:
    """`rates`: None = not known yet."""

    window: SampleWindow[Mapping[Key, TrafficCounters]]
    rates: dict[Key, Traffic] | None = None


@dataclass(slots=True)
class TrafficCache:
    """`topics`, `partitions`: sums over brokers, of the last `sum_up`. A topic whose leaders are not all known has no entry."""

    topics: dict[str, Traffic] = field(default_factory=dict)
    partitions: dict[Key, Traffic] = field(default_factory=dict)
    _brokers: dict[int, _BrokerTraffic] = field(default_factory=dict)

    def apply(self, sample: BrokerSample) -> None:
        """Apply the sample of one broker. A sample without counters changes nothing."""
        if sample.traffic is None:
            return
        known = self._brokers.get(sample.broker_id)
        if known is None:
            self._brokers[sample.broker_id] = _BrokerTraffic(SampleWindow(WINDOW_MS, sample.at_ms, sample.traffic))
            return
        earlier = known.window.compare(sample.at_ms, sample.traffic)
        if earlier is None:
            return
        seconds, before = earlier
        known.rates = {
            key: rate for key, c in sample.traffic.items() if (rate := _rate(before.get(key), c, seconds)) != NONE
        }

    def forget(self, broker_id: int) -> None:
        """The broker did not respond."""
        self._brokers.pop(broker_id, None)

    def sum_up(self, leaders: Mapping[Key, int]) -> set[Key]:
        """Compute the sums. `leaders`: of all partitions. Returns the partitions whose rates have changed."""
        sums: dict[Key, Traffic] = {}
        for known in self._brokers.values():
            for key, rate in (known.rates or {}).items():
                if key in leaders:
                    sums[key] = sums[key] + rate if key in sums else rate
        rated = {b for b, known in self._brokers.items() if known.rates is not None}
        before, unknown = self.partitions, set()
        self.partitions, self.topics = {}, {}
        for key, leader in leaders.items():
            if leader not in rated:
                unknown.add(key[0])
                continue
            rate = self.partitions[key] = sums[key].rounded() if key in sums else NONE
            if rate is not NONE or key[0] not in self.topics:
                self.topics[key[0]] = self.topics[key[0]] + rate if key[0] in self.topics else rate
        for name in unknown:
            self.topics.pop(name, None)
        keys = before.keys() | self.partitions.keys()
        return {key for key in keys if key in leaders and before.get(key) != self.partitions.get(key)}

    def broker(self, broker_id: int) -> Traffic | None:
        known = self._brokers.get(broker_id)
        return None if known is None or known.rates is None else _sum(known.rates.values())

    def cluster(self, stale: Container[str] = ()) -> Traffic | None:
        """The sum over all topics except those in `stale`."""
        return _sum(t for name, t in self.topics.items() if name not in stale) if self.topics else None


def _sum(rates: Iterable[Traffic]) -> Traffic:
    columns = zip(*(t.values for t in rates), strict=True)
    return Traffic(*(sum(c) for c in columns)).rounded()


def _rate(before: TrafficCounters | None, now: TrafficCounters, seconds: float) -> Traffic:
    return Traffic(*((c - b if c >= b else c) / seconds for b, c in zip(before or NO_COUNTERS, now, strict=True)))
