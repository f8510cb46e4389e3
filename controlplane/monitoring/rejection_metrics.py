"""Metrics of rejected requests: per broker and reason, and of the clients that a broker rejects repeatedly.

Invariant: a broker without a response has no values. Does not contain: rows; which of the clients are alerts (`alert_client_cases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.clients.broker_samples import BrokerSample, FailedLoginSample, RejectedClientSample
from controlplane.monitoring.sample_window import SampleWindow, compare_sample

WINDOW_MS = 10_000
"""Minimum time over which a rate is measured. The maximum is twice as long."""
CLIENT_WINDOW_MS = 60_000
"""WINDOW_MS for the rates of clients. It is longer, because many clients retry after a pause of some seconds."""
PAUSE_MS_MAX = 120_000
"""Maximum time between two rejections of a series: a later one is the first of a new series."""
DENIAL_MS_MAX = 60_000
"""Maximum time for which an operation without authorization is shown after its last report. A client may alternate between two operations."""
REJECTED_CLIENTS_MAX = 20
"""Maximum number of clients per broker, those with the highest rates."""


@dataclass(frozen=True, slots=True)
class RejectionMetric:
    """`total`: since the start of the broker."""

    reason: str
    total: int
    per_s: float


@dataclass(slots=True)
class RejectionMetrics:
    """`by_broker`: the rejected requests of each broker that answered twice, by reason, those with the highest rate first."""

    by_broker: dict[int, list[RejectionMetric]] = field(default_factory=dict)
    _windows: dict[int, SampleWindow[Mapping[str, int]]] = field(default_factory=dict)

    def apply(self, sample: BrokerSample) -> None:
        """Apply the sample of one broker. A sample without replicas has no numbers of rejections either."""
        if sample.replicas is None:
            return
        earlier = compare_sample(self._windows, WINDOW_MS, sample.broker_id, sample.at_ms, sample.rejections)
        if earlier is not None:
            seconds, before = earlier
            found = [RejectionMetric(r, n, _per_s(before.get(r, 0), n, seconds)) for r, n in sample.rejections.items()]
            self.by_broker[sample.broker_id] = sorted(found, key=lambda f: (-f.per_s, -f.total, f.reason))

    def forget(self, broker_id: int) -> None:
        """The broker did not respond."""
        self._windows.pop(broker_id, None)
        self.by_broker.pop(broker_id, None)


def _per_s(before: int, now: int, seconds: float) -> float:
    return round((now - before if now >= before else now) / seconds, 3)


@dataclass(frozen=True, slots=True)
class FailedLoginMetric:
    """Failed logins of a client with the same user, mechanism and `failure` (`brokerd.cluster.sasl_failures`). `user` and `mechanism`: as the client sent
    them, empty if it sent none. `count`: since `since_ms` of the client."""

    user: str
    mechanism: str
    failure: str
    count: int


@dataclass(frozen=True, slots=True)
class RejectedClientMetric:
    """A client that a broker rejects, for one reason. `principal`: empty for a client that is not authenticated. `per_min`: rejected requests per minute, in
    the last one to two minutes. `since_ms`: Unix time of the first rejection of the current run of rejections. `operation`, `resource_type`, `resource_name`: an
    operation without authorization; empty: another reason, or unknown. `logins`: the failed logins, if the reason is that the authentication failed, the
    most frequent first."""

    principal: str
    host: str
    client_id: str
    reason: str
    per_min: float
    since_ms: int
    operation: str = ""
    resource_type: str = ""
    resource_name: str = ""
    logins: tuple[FailedLoginMetric, ...] = ()


LoginKey = tuple[str, str, str]
"""(user, mechanism, failure)"""


@dataclass(slots=True)
class _Series:
    """`count`: as the broker reported it last. `grown`: rejections since the first sample, in the samples of `window`."""

    count: int
    window: SampleWindow[int]
    grown: int = 0
    per_min: float = 0.0
    since_ms: int | None = None
    last_ms: int = 0
    denial: tuple[str, str, str] = ("", "", "")
    denied_ms: int = 0
    logins: dict[LoginKey, tuple[int, int]] = field(default_factory=dict)
    """(as the broker reported it last, since `since_ms`)"""

    def apply(self, at_ms: int, sample: RejectedClientSample, logins: Mapping[LoginKey, int]) -> None:
        growth = sample.count - self.count if sample.count >= self.count else sample.count
        self.count, self.grown = sample.count, self.grown + growth
        if growth:
            if self.since_ms is None or at_ms - self.last_ms > PAUSE_MS_MAX:
                self.since_ms = at_ms
                self.logins = {key: (reported, 0) for key, (reported, _) in self.logins.items()}
            self.last_ms = at_ms
            if sample.denial == self.denial or at_ms - self.denied_ms > DENIAL_MS_MAX:
                self.denial, self.denied_ms = sample.denial, at_ms
        self.logins = {key: (n, self._grown_login(key, n)) for key, n in logins.items()}
        earlier = self.window.compare(at_ms, self.grown)
        if earlier is not None:
            seconds, before = earlier
            self.per_min = round(60 * (self.grown - before) / seconds, 1)

    def _grown_login(self, key: LoginKey, count: int) -> int:
        reported, grown = self.logins.get(key, (0, 0))
        return grown + (count - reported if count >= reported else count)

    def metrics_of_logins(self) -> tuple[FailedLoginMetric, ...]:
        found = (FailedLoginMetric(*key, grown) for key, (_, grown) in self.logins.items() if grown)
        return tuple(sorted(found, key=lambda x: (-x.count, x.user, x.mechanism, x.failure)))


ClientKey = tuple[str, str, str, str]
"""(principal, host, client ID, reason)"""


@dataclass(slots=True)
class RejectedClients:
    """`by_broker`: the clients that each broker rejects now, those with the highest rate first. A throttled client is not among them: its requests are
    served, as its quota demands."""

    by_broker: dict[int, list[RejectedClientMetric]] = field(default_factory=dict)
    _series: dict[int, dict[ClientKey, _Series]] = field(default_factory=dict)

    def apply(self, sample: BrokerSample) -> None:
        """Apply the sample of one broker. A sample without replicas has no rejected clients either."""
        if sample.replicas is None:
            return
        known, at_ms = self._series.get(sample.broker_id), sample.at_ms
        series: dict[ClientKey, _Series] = {}
        logins = _logins(sample.failed_logins)
        for rejected in sample.rejected_clients:
            if rejected.reason == RejectionReason.THROTTLED:
                continue
            key = (rejected.principal, rejected.host, rejected.client_id, rejected.reason)
            failed = (
                logins.get((rejected.host, rejected.client_id), {})
                if rejected.reason == RejectionReason.AUTHENTICATION_FAILED
                else {}
            )
            # What a broker counted before its first sample has no known time. A client that is missing in an earlier sample had no rejections then.
            found = (
                known.get(key)
                if known is not None
                else _Series(rejected.count, SampleWindow(CLIENT_WINDOW_MS, at_ms, 0))
            )
            if known is None and found is not None:
                found.logins = {login: (n, 0) for login, n in failed.items()}
            series[key] = found or _Series(0, SampleWindow(CLIENT_WINDOW_MS, at_ms - 1, 0))
            series[key].apply(at_ms, rejected, failed)
        self._series[sample.broker_id] = series
        metrics = [
            RejectedClientMetric(*key, s.per_min, s.since_ms, *s.denial, s.metrics_of_logins())
            for key, s in series.items()
            if s.since_ms is not None and at_ms - s.last_ms <= PAUSE_MS_MAX
        ]
        self.by_broker[sample.broker_id] = sorted(metrics, key=lambda f: -f.per_min)[:REJECTED_CLIENTS_MAX]

    def forget(self, broker_id: int) -> None:
        """The broker did not respond."""
        self._series.pop(broker_id, None)
        self.by_broker.pop(broker_id, None)


def _logins(samples: Iterable[FailedLoginSample]) -> dict[tuple[str, str], dict[LoginKey, int]]:
    """The failed logins by (host, client ID)."""
    found: dict[tuple[str, str], dict[LoginKey, int]] = {}
    for x in samples:
        found.setdefault((x.host, x.client_id), {})[x.user, x.mechanism, x.failure] = x.count
    return found
