"""Sends the checks (requests to decide half messages) to the producers: one batch at a time, at least once.

Invariants: a message is in this queue at most once, with the number of its latest check. A batch that was not accepted is sent again after a pause, without the
messages that were decided since then. Does not contain: when a message is checked (`half_messages`).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.delivery import half_records
from brokerd.delivery.front_log import FrontLog, FrontTarget
from brokerd.delivery.half_messages import CheckProducers
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.delivery.record_cache import RecordCache
from brokerd.delivery.transfer import RETRY_MS
from brokerd.delivery.transfer_lane import next_batch
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode

WAITING_MAX = 1_000
"""Maximum number of messages whose check waits to be sent. Further messages stay in the schedule."""


class HalfChecks:
    def __init__(
        self,
        log: FrontLog,
        is_undecided: Callable[[int], bool],
        on_response: Callable[[Now], None],
        limits: DeliveryLimits = DEFAULT_LIMITS,
    ) -> None:
        """`is_undecided`: whether the message at an offset is undecided."""
        self._log, self._is_undecided, self._on_response, self._limits = log, is_undecided, on_response, limits
        self._waiting: dict[int, int] = {}
        """{offset: number of the check}"""
        self._cache = RecordCache(log)
        self._sent: list[tuple[int, int]] = []
        self._retry_at_ms = 0
        self.closed = False
        self.sent = 0
        """Number of checks that the check topic has accepted."""

    @property
    def room(self) -> int:
        return max(0, WAITING_MAX - len(self._waiting))

    def add(self, check: CheckProducers) -> None:
        self._waiting[check.offset] = check.number

    def tick(self, now: Now) -> None:
        if self._sent or now.mono_ms < self._retry_at_ms:
            return
        start = self._log.start_offset
        self._waiting = {o: n for o, n in self._waiting.items() if o >= start and self._is_undecided(o)}
        first = sorted(self._waiting)[: self._limits.batch_records]
        if not first or not self._cache.load(first):
            return
        chosen, _ = next_batch(first, self._cache, self._log.batch_bytes_max)
        if not chosen:
            return
        self._sent = [(o, self._waiting.pop(o)) for o in chosen]
        written = [
            half_records.build_check_record(record, i, number, now.wall_ms)
            for i, (offset, number) in enumerate(self._sent)
            if (record := self._cache.get(offset)) is not None
        ]
        self._log.send(FrontTarget.CHECK, records.build(written), self._on_result)

    def _on_result(self, error: ErrorCode, now: Now) -> None:
        if self.closed:
            return
        if error:
            self._retry_at_ms = now.mono_ms + RETRY_MS
            for offset, number in self._sent:
                self._waiting.setdefault(offset, number)
        else:
            self.sent += len(self._sent)
        self._cache.forget(o for o, _ in self._sent)
        self._sent = []
        self._on_response(now)
