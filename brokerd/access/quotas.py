"""How much a user or a client may use: bytes in, bytes out, time of the loop; and how long to hold back whoever uses more (KIP-13, KIP-124, KIP-219).

Laws: as in Kafka the nearest quota counts, in the order below, and who shares a quota shares its bucket; an answer leaves at once and says how long its connection is not
read. Pure, clocks are given. Called by `dispatch`; made anew when the metadata log changes a quota.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokerd.wire.apis import ApiKey

if TYPE_CHECKING:
    from brokerd.dispatch import Request

USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCE, FETCH, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS = "controller_mutation_rate"
KEYS = (PRODUCE, FETCH, TIME, MUTATIONS)
"""What may be set for users and clients. The last is kept to by `mutations`."""
CONNECTIONS = "connection_creation_rate"
"""What may be set for an address (KIP-612): new connections per second, kept to by `net/admission`."""
SAMPLES, SAMPLE_MS = 11, 1_000
"""Kafka's quota.window.num and quota.window.size.seconds: a rate is over the ten seconds and a bit that have passed."""
BUCKETS_MAX = 10_000
"""Rates remembered; the one unused for longest is forgotten."""
THROTTLE_MS_MAX = 2**31 - 1
"""What the answer's field holds. Kafka bounds no pause for bytes either: one that ended when the samples are forgotten would let a request of a hundred
seconds' worth through every eleven."""


def entity_key(entity: Mapping[str, str | None]) -> str:
    """`{"user": "alice", "client-id": None}` -> one text; None is the default entity."""
    return json.dumps(dict(sorted(entity.items())), separators=(",", ":"))


def entity_of(key: str) -> dict[str, str | None]:
    return dict(json.loads(key))


@dataclass(slots=True)
class Sample:
    start_ms: int
    last_ms: int
    total: float = 0.0


class Rate:
    """A sum over the last samples, as Kafka's Rate has it: a sample begins with what is first in it, and windows that never were count as empty ones."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def add(self, value: float, now_ms: int) -> None:
        if not self._samples or now_ms - self._samples[-1].start_ms >= SAMPLE_MS:
            self._samples.append(Sample(now_ms, now_ms))
            del self._samples[: -(SAMPLES + 1)]  # one more than is looked at: the oldest may have had something lately
        self._samples[-1].last_ms = now_ms
        self._samples[-1].total += value

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may come so that the rate is `limit` per second again."""
        recent = [s for s in self._samples if now_ms - s.last_ms < SAMPLES * SAMPLE_MS]
        elapsed_ms = now_ms - recent[0].start_ms if recent else 0
        elapsed_ms += max(0, SAMPLES - 1 - elapsed_ms // SAMPLE_MS) * SAMPLE_MS
        rate = sum(s.total for s in recent) * 1_000 / elapsed_ms
        if rate <= limit:
            return 0
        return (
            min(THROTTLE_MS_MAX, max(1, round((rate - limit) / limit * elapsed_ms))) if limit > 0 else THROTTLE_MS_MAX
        )


class Quotas:
    """`entries`: by entity key the values of its quotas."""

    def __init__(self) -> None:
        self._entries: dict[str, Mapping[str, float]] = {}
        self._found: dict[tuple[str, str, str], tuple[str, float] | None] = {}
        self._rates: OrderedDict[tuple[str, str], Rate] = OrderedDict()
        self.active = False

    def set(self, entries: Iterable[tuple[str, Mapping[str, Any] | None]]) -> None:
        self._entries = {key: value for key, value in entries if value}
        self._found.clear()
        self.active = any(IP not in entity_of(key) for key in self._entries)

    def connection_rates(self) -> dict[str | None, float]:
        """By address; under None what holds for every other."""
        named = ((entity_of(key), value) for key, value in self._entries.items())
        return {e[IP]: float(v[CONNECTIONS]) for e, v in named if IP in e and CONNECTIONS in v}

    @property
    def entries(self) -> Mapping[str, Mapping[str, float]]:
        return self._entries

    def limit(self, kind: str, user: str, client: str) -> tuple[str, float] | None:
        """(bucket, limit) of whoever this is; None without one."""
        asked = (kind, user, client)
        if asked not in self._found:
            if len(self._found) >= BUCKETS_MAX:
                self._found.clear()
            self._found[asked] = self._find(*asked)
        return self._found[asked]

    def _find(self, kind: str, user: str, client: str) -> tuple[str, float] | None:
        for entity in (
            {USER: user, CLIENT: client}, {USER: user, CLIENT: None}, {USER: user}, {USER: None, CLIENT: client},
            {USER: None, CLIENT: None}, {USER: None}, {CLIENT: client}, {CLIENT: None},
        ):  # fmt: skip
            value = self._entries.get(entity_key(entity), {}).get(kind)
            if value is not None:
                mine = {k: user if k == USER else client for k in entity}  # a default is each one's own bucket
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

    # -- requests ------------------------------------------------------------------------------------------------------
    def watch(self, request: Request, size: int, now: Any, spent: Callable[[], float] = lambda: 0.0) -> None:
        """Count this request when it is answered, or would be (acks=0). `now()` gives the clocks' reading then, `spent()` the seconds of the
        loop that it has cost and that were not counted yet."""
        key, body = request.header.api_key, request.body
        user, client = request.principal.partition(":")[2], request.client_id
        kind = {ApiKey.PRODUCE: PRODUCE, ApiKey.FETCH: FETCH}.get(key)
        if kind == FETCH and _follower(body):
            return  # brokers among themselves are no clients
        found = self.limit(kind, user, client) if kind is not None else None
        timed = self.limit(TIME, user, client)
        if kind == FETCH and found is not None:
            body.max_bytes = min(body.max_bytes, max(1, int(found[1] * (SAMPLES - 1))))
        if found is None and timed is None:
            return

        def amend(answer: Any) -> None:
            now_ms, wait = now().mono_ms, 0
            if found is not None and kind is not None:
                rate = self.rate(kind, found[0])
                sent = size if kind == PRODUCE else _bytes(answer)
                rate.add(sent, now_ms)
                wait = rate.throttle_ms(found[1], now_ms)
            if timed is not None:
                self.spent(request, spent(), now_ms)
                wait = max(wait, min(SAMPLE_MS, self.rate(TIME, timed[0]).throttle_ms(timed[1], now_ms)))
            if not wait:
                return
            if kind == FETCH:  # as in Kafka, whichever quota it is: the same fetch is asked again after the pause
                if found is not None:
                    rate.add(-sent, now_ms)
                answer.responses = []
            hold_back(request, answer, wait)

        if request.amends is None:
            request.amends = []
        request.amends.append(amend)

    def spent(self, request: Request, seconds: float, now_ms: int) -> None:
        """The loop has worked for this request so long. A whole second in a second is 100 %."""
        found = self.limit(TIME, request.principal.partition(":")[2], request.client_id)
        if found is not None:
            self.rate(TIME, found[0]).add(seconds * 100, now_ms)


def hold_back(request: Request, answer: Any, ms: int) -> None:
    """Say it in the answer, the longest of several, and do not read the connection for as long."""
    if hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = max(answer.throttle_time_ms, ms)
    request.mute(ms)


def _follower(body: Any) -> bool:
    state = body.replica_state
    return bool((body.replica_id if state is None else state.replica_id) >= 0)


def _bytes(answer: Any) -> int:
    total = 0
    for topic in answer.responses:
        for p in topic.partitions:
            records = p.records
            total += sum(len(r) for r in records) if isinstance(records, list) else len(records or b"")
    return total
