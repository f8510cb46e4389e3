"""Client quotas for produced bytes, fetched bytes and request time, and the throttle times (KIP-13, KIP-124, KIP-219). Pure.

Invariants: as in Kafka the most specific quota applies, in the order below, and all users of a quota entity share its bucket. A response is sent
immediately and contains the throttle time. The connection is not read during the throttle time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from brokerd.cluster.model import Now
from brokerd.cluster.quota_entities import CLIENT, CONNECTIONS, FETCH, IP, PRODUCE, TIME, USER, entity_key, entity_of
from brokerd.net.request import Request
from brokerd.wire.apis import ApiKey

SAMPLES, SAMPLE_MS = 11, 1_000
"""Kafka's quota.window.num and quota.window.size.seconds: a rate is measured over the last ten to eleven seconds."""
BUCKETS_MAX = 10_000
"""The maximum number of rates. Above it the least recently used one is removed."""
THROTTLE_MS_MAX = 2**31 - 1
"""The maximum of the field in the response. As in Kafka, a pause for bytes has no other limit: if it ended when the samples expire, a request
worth a hundred seconds would be accepted every eleven seconds."""


@dataclass(slots=True)
class QuotaSample:
    start_ms: int
    last_ms: int
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The current rate of one bucket. `bucket` is the entity key, without default entities."""

    bucket: str
    kind: str
    per_second: float


class Rate:
    """A sum over the last samples, like Kafka's Rate. A sample starts with its first value. Windows without values count as empty samples."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: list[QuotaSample] = []

    def add(self, value: float, now_ms: int) -> None:
        if not self._samples or now_ms - self._samples[-1].start_ms >= SAMPLE_MS:
            self._samples.append(QuotaSample(now_ms, now_ms))
            del self._samples[: -(SAMPLES + 1)]  # keep one more sample: the oldest one may contain recent values
        self._samples[-1].last_ms = now_ms
        self._samples[-1].total += value

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Milliseconds without new values until the rate has fallen to `limit` per second."""
        rate, elapsed_ms = self._measure(now_ms)
        if rate <= limit:
            return 0
        return (
            min(THROTTLE_MS_MAX, max(1, round((rate - limit) / limit * elapsed_ms))) if limit > 0 else THROTTLE_MS_MAX
        )

    def per_second(self, now_ms: int) -> float:
        return self._measure(now_ms)[0]

    def _measure(self, now_ms: int) -> tuple[float, int]:
        """(rate per second, milliseconds over which it is measured)."""
        recent = [s for s in self._samples if now_ms - s.last_ms < SAMPLES * SAMPLE_MS]
        elapsed_ms = now_ms - recent[0].start_ms if recent else 0
        elapsed_ms += max(0, SAMPLES - 1 - elapsed_ms // SAMPLE_MS) * SAMPLE_MS
        return sum(s.total for s in recent) * 1_000 / elapsed_ms, elapsed_ms


class Quotas:
    """`entries`: the values of the quotas by entity key."""

    def __init__(self) -> None:
        self._entries: dict[str, Mapping[str, float]] = {}
        self._limit_cache: dict[tuple[str, str, str], tuple[str, float] | None] = {}
        self._rates: OrderedDict[tuple[str, str], Rate] = OrderedDict()
        self.active = False

    def set(self, entries: Iterable[tuple[str, Mapping[str, Any] | None]]) -> None:
        self._entries = {key: value for key, value in entries if value}
        self._limit_cache.clear()
        self.active = any(IP not in entity_of(key) for key in self._entries)

    def connection_rates(self) -> dict[str | None, float]:
        """The quotas by address; the default for all other addresses under None."""
        named = ((entity_of(key), value) for key, value in self._entries.items())
        return {e[IP]: float(v[CONNECTIONS]) for e, v in named if IP in e and CONNECTIONS in v}

    @property
    def entries(self) -> Mapping[str, Mapping[str, float]]:
        return self._entries

    def limit(self, kind: str, user: str, client: str) -> tuple[str, float] | None:
        """(bucket, limit) of this user and client id; None without a quota."""
        cache_key = (kind, user, client)
        if cache_key not in self._limit_cache:
            if len(self._limit_cache) >= BUCKETS_MAX:
                self._limit_cache.clear()
            self._limit_cache[cache_key] = self._find(*cache_key)
        return self._limit_cache[cache_key]

    def _find(self, kind: str, user: str, client: str) -> tuple[str, float] | None:
        for entity in (
            {USER: user, CLIENT: client},
            {USER: user, CLIENT: None},
            {USER: user},
            {USER: None, CLIENT: client},
            {USER: None, CLIENT: None},
            {USER: None},
            {CLIENT: client},
            {CLIENT: None},
        ):
            value = self._entries.get(entity_key(entity), {}).get(kind)
            if value is not None:
                mine = {
                    k: user if k == USER else client for k in entity
                }  # a default quota: each user or client has its own bucket
                return entity_key(mine), float(value)
        return None

    def rate(self, kind: str, bucket: str) -> Rate:
        rate = self._rates.get((kind, bucket))
        if rate is None:
            rate = self._rates[kind, bucket] = Rate()
            if len(self._rates) > BUCKETS_MAX:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end((kind, bucket))
        return rate

    def use(self, now_ms: int, limit: int) -> list[QuotaUse]:
        """The current rates above zero of the `limit` buckets with the most recent requests."""
        rates = (
            QuotaUse(bucket, kind, rate.per_second(now_ms))
            for (kind, bucket), rate in islice(reversed(self._rates.items()), limit)
        )
        return [used for used in rates if used.per_second > 0]

    # -- requests ------------------------------------------------------------------------------------------------------
    def watch(
        self, request: Request, size: int, now: Callable[[], Now], spent: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Count this request against the quotas when it is answered. A request with acks=0 counts at the time when it would be answered. `size`:
        bytes of the request. `now()` returns the current time. `spent()` returns the seconds of event loop time that the request used and that
        are not counted yet."""
        key, body = request.header.api_key, request.body
        user, client = request.principal.partition(":")[2], request.client_id
        kind = PRODUCE if key == ApiKey.PRODUCE else FETCH if key == ApiKey.FETCH else None
        if kind == FETCH and _follower(body):
            return  # client quotas do not apply to replication
        found = self.limit(kind, user, client) if kind is not None else None
        timed = self.limit(TIME, user, client)
        if kind == FETCH and found is not None:
            body.max_bytes = min(body.max_bytes, max(1, int(found[1] * (SAMPLES - 1))))
        if found is None and timed is None:
            return

        def amend(response: Any) -> None:
            now_ms, wait = now().mono_ms, 0
            if found is not None and kind is not None:
                rate = self.rate(kind, found[0])
                sent = size if kind == PRODUCE else _bytes(response)
                rate.add(sent, now_ms)
                wait = rate.throttle_ms(found[1], now_ms)
            if timed is not None:
                self.count_loop_time(request, spent(), now_ms)
                wait = max(wait, min(SAMPLE_MS, self.rate(TIME, timed[0]).throttle_ms(timed[1], now_ms)))
            if not wait:
                return
            if kind == FETCH:  # as in Kafka, for both quotas: the client repeats the same fetch after the throttle time
                if found is not None:
                    rate.add(-sent, now_ms)
                response.responses = []
            hold_back(request, response, wait)

        if request.amends is None:
            request.amends = []
        request.amends.append(amend)

    def count_loop_time(self, request: Request, seconds: float, now_ms: int) -> None:
        """Count `seconds` of event loop time for this request. One second per second is 100 %."""
        found = self.limit(TIME, request.principal.partition(":")[2], request.client_id)
        if found is not None:
            self.rate(TIME, found[0]).add(seconds * 100, now_ms)


def hold_back(request: Request, response: Any, ms: int) -> None:
    """Throttle the client by `ms` milliseconds: set the throttle time in the response, and do not read the connection during this time. Of several
    throttle times the longest one applies."""
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, ms)
    request.mute(ms)


def _follower(body: Any) -> bool:
    state = body.replica_state
    return bool((body.replica_id if state is None else state.replica_id) >= 0)


def _bytes(response: Any) -> int:
    total = 0
    for topic in response.responses:
        for p in topic.partitions:
            records = p.records
            total += sum(len(r) for r in records) if isinstance(records, list) else len(records or b"")
    return total
