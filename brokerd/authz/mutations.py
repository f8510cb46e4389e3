"""Controller mutation quota: partitions that a user or a client may create and delete per second (KIP-599). Pure.

Invariants: a token bucket contains the quota of SAMPLES seconds. A change larger than the remaining tokens is allowed and makes the bucket negative.
While the bucket is negative, requests of newer versions get THROTTLING_QUOTA_EXCEEDED. Older clients do not know this error code and are throttled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from brokerd.authz.quotas import BUCKETS_MAX, SAMPLE_MS, SAMPLES, Quotas, hold_back
from brokerd.cluster.quota_entities import MUTATIONS
from brokerd.net.request import Request


class MutationTokens:
    """A token bucket as Kafka's TokenBucket: full at the start."""

    __slots__ = ("_at_ms", "left")

    def __init__(self, rate: float, now_ms: int) -> None:
        self.left, self._at_ms = _burst(rate), now_ms

    def fill(self, rate: float, now_ms: int) -> None:
        self.left = min(_burst(rate), round(self.left + (now_ms - self._at_ms) * rate / 1_000, 6))
        self._at_ms = now_ms

    def wait_ms(self, rate: float) -> int:
        """Milliseconds until the bucket is no longer negative, at `rate` tokens per second."""
        return 0 if self.left >= 0 else max(1, round(-self.left / rate * 1_000))


def _burst(rate: float) -> float:
    return rate * SAMPLES * SAMPLE_MS / 1_000


class Mutations:
    """The buckets of all users and clients at this broker."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._buckets: OrderedDict[str, MutationTokens] = OrderedDict()

    def take(self, request: Request, requested: Sequence[int], now_ms: int, *, strict: bool) -> list[bool]:
        """Return whether each change in `requested` (a number of partitions) is within the quota. `strict`: the client knows THROTTLING_QUOTA_EXCEEDED. The
        response contains the throttle time. The connection is not read during this time."""
        found = self._quotas.limit(MUTATIONS, request.principal.partition(":")[2], request.client_id)
        if found is None:
            return [True] * len(requested)
        name, rate = found
        bucket = self._buckets.pop(name, None) or MutationTokens(rate, now_ms)
        self._buckets[name] = bucket
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        bucket.fill(rate, now_ms)
        taken = []
        for count in requested:
            may = bucket.left >= 0 or not strict
            taken.append(may)
            if may:
                bucket.left -= count
        wait = bucket.wait_ms(rate)
        if wait:

            def amend(response: object) -> None:
                hold_back(request, response, wait)

            # Each of the amendments may set a throttle time. `hold_back` keeps the longest one, so their order has no effect.
            request.amends = [amend, *(request.amends or ())]
        return taken
