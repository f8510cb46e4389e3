"""Delayed produce: appends that wait until they are acknowledged as the producer's acks require.

Invariants: with acks=1, records are acknowledged after the leader has written them and, if the topic requires it, flushed them. With acks=all, records are
acknowledged after every member of the ISR has done the same, that is, after the high watermark has passed them. A leader that was replaced acknowledges no
records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokerd.apis.produce_results import AppendOutcome, PartitionResult, PendingAppend
from brokerd.net.loop import Loop
from brokerd.replication.purgatory import DelayedOperation, Purgatory
from brokerd.wire.errors import ErrorCode

ACKS_ALL = -1
TIMEOUT_MS_MAX = 300_000
"""The longest time-out of a produce request."""

OnResults = Callable[[list[PartitionResult]], None]
"""Called with one result per outcome, in the same order."""


def acknowledgement(append: PendingAppend, acks: int) -> PartitionResult | None:
    """The result of an append, or None while the append waits for its acknowledgement."""
    replica = append.replica
    if not replica.leads or replica.core.leader_epoch != append.leader_epoch:
        return append.error_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if acks != ACKS_ALL:
        flushed = replica.log.flushing.acknowledgeable_end >= append.required_end
        return append.acknowledged_result() if flushed else None
    if replica.core.high_watermark < append.required_end:
        return None
    if replica.core.isr_size < replica.core.min_insync:
        return append.error_result(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return append.acknowledged_result()


class DelayedProduce:
    """The appends of one request. The purgatory evaluates it when a high watermark or a flushed end advances, and when it expires."""

    __slots__ = ("_abandoned", "_acks", "_done", "_outcomes", "_pending")

    def __init__(
        self,
        outcomes: list[AppendOutcome],
        pending: list[tuple[int, PendingAppend]],
        acks: int,
        done: OnResults,
        abandoned: Callable[[], bool],
    ) -> None:
        """`pending` contains the appends that wait for an acknowledgement, with their positions in `outcomes`."""
        self._outcomes, self._pending, self._acks = outcomes, pending, acks
        self._done, self._abandoned = done, abandoned

    def try_complete(self) -> bool:
        waiting = []
        for i, append in self._pending:
            result = acknowledgement(append, self._acks)
            if result is None:
                waiting.append((i, append))
            else:
                self._outcomes[i] = result
        self._pending = waiting
        return not waiting or self._abandoned()

    def complete(self, expired: bool) -> None:
        """Send the results. An append that is not acknowledged yet gets REQUEST_TIMED_OUT."""
        if not self._abandoned():
            self._done(
                [
                    o if isinstance(o, PartitionResult) else o.error_result(ErrorCode.REQUEST_TIMED_OUT)
                    for o in self._outcomes
                ]
            )


class Acknowledgements:
    def __init__(self, loop: Loop, purgatory: Purgatory) -> None:
        self._loop, self._purgatory = loop, purgatory

    def wait(
        self,
        outcomes: Sequence[AppendOutcome],
        acks: int,
        timeout_ms: int,
        done: OnResults,
        abandoned: Callable[[], bool] = lambda: False,
        *,
        client: bool = True,
    ) -> None:
        """Call `done` when each append is acknowledged as `acks` requires, has failed or has timed out. `done` is not called if the request is
        `abandoned`. `timeout_ms` is in milliseconds. `client`: True for a request of a client, False for an append of a coordinator."""
        known: list[AppendOutcome] = []
        pending, keys = [], []
        for i, outcome in enumerate(outcomes):
            if isinstance(outcome, PendingAppend):
                if acks != ACKS_ALL and outcome.replica.log.flushing.acknowledgeable_end >= outcome.required_end:
                    outcome = outcome.acknowledged_result()
                else:
                    pending.append((i, outcome))
                    keys.append(outcome.replica.hw_key())
            known.append(outcome)
        if not pending:
            done([o for o in known if isinstance(o, PartitionResult)])
            return
        delayed = DelayedProduce(known, pending, acks, done, abandoned)
        deadline = self._loop.now.mono_ms + max(0, min(timeout_ms, TIMEOUT_MS_MAX))
        self._purgatory.add(
            DelayedOperation(tuple(keys), delayed.try_complete, delayed.complete, client=client), deadline
        )
