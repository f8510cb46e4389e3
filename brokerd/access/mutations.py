"""How many partitions a user or a client may have made and deleted per second (KIP-599).

Laws: a bucket of tokens holds SAMPLES seconds' worth, and a change may be larger than what is left: it takes the bucket below zero, and until it
is filled again newer clients are refused and older ones, who know no such code, are held back. Pure, clocks are given. Called by `apis/admin`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from brokerd.access.quotas import BUCKETS_MAX, MUTATIONS, SAMPLE_MS, SAMPLES, Quotas, hold_back

if TYPE_CHECKING:
    from brokerd.dispatch import Request


class Tokens:
    """As Kafka's TokenBucket: full at the beginning."""

    __slots__ = ("_at_ms", "left")

    def __init__(self, rate: float, now_ms: int) -> None:
        self.left, self._at_ms = _burst(rate), now_ms

    def fill(self, rate: float, now_ms: int) -> None:
        self.left = min(_burst(rate), round(self.left + (now_ms - self._at_ms) * rate / 1_000, 6))
        self._at_ms = now_ms

    def wait_ms(self, rate: float) -> int:
        """Until the bucket is no longer below zero."""
        return 0 if self.left >= 0 else max(1, round(-self.left / rate * 1_000))


def _burst(rate: float) -> float:
    return rate * SAMPLES * SAMPLE_MS / 1_000


class Mutations:
    """Of all users and clients, at this broker."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._buckets: OrderedDict[str, Tokens] = OrderedDict()

    def take(self, request: Request, wanted: Sequence[int], now_ms: int, *, strict: bool) -> list[bool]:
        """Whether each of these changes, in partitions, may go on; `strict`: the asker knows what it means that one may not. The answer
        will say how long to wait, and the connection waits."""
        found = self._quotas.limit(MUTATIONS, request.principal.partition(":")[2], request.client_id)
        if found is None:
            return [True] * len(wanted)
        name, rate = found
        bucket = self._buckets.pop(name, None) or Tokens(rate, now_ms)
        self._buckets[name] = bucket
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        bucket.fill(rate, now_ms)
        taken = []
        for count in wanted:
            may = bucket.left >= 0 or not strict
            taken.append(may)
            if may:
                bucket.left -= count
        wait = bucket.wait_ms(rate)
        if wait:

            def amend(answer: Any) -> None:
                hold_back(request, answer, wait)

            request.amends = [
                amend,
                *(request.amends or ()),
            ]  # first: the longer pause, as a rule, and the first is kept
        return taken
