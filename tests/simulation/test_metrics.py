"""The worlds of `test_halves`, `test_delays` and `test_share_letters` compare the values of half messages, delayed messages and dead letters. They fail when a
value is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.apis.share_dead_letters import ShareDeadLetters
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.half_front import HalfFront
from tests.simulation import delays, halves
from tests.simulation.run import Live, run
from tests.simulation.shares import live_with_letters

SEEDS_MAX = 10


def an_expired_message_counts_as_undecided(patch: pytest.MonkeyPatch) -> None:
    undecided = HalfFront.undecided.fget
    assert undecided is not None
    wrong = property(lambda self: undecided(self) + self.delivered_to(FrontTarget.EXPIRED))
    patch.setattr(HalfFront, "undecided", wrong)


def a_cancelled_record_counts_as_pending_after_its_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DelayedFront, "pending", property(lambda self: self._schedule.pending + self.cancelled))


def a_repeated_request_counts_its_dead_letters_again(patch: pytest.MonkeyPatch) -> None:
    write = ShareDeadLetters._write

    def mutated_write(self: ShareDeadLetters, shared: Any, sending: Any, *rest: Any) -> None:
        if shared.letters.failures:
            self._count_letters(shared, written=sending.run.last - sending.run.first + 1)
        write(self, shared, sending, *rest)

    patch.setattr(ShareDeadLetters, "_write", mutated_write)


@pytest.mark.parametrize(
    ("mutation", "life", "first", "named"),
    [
        (an_expired_message_counts_as_undecided, halves.live, 1, "undecided messages"),
        (a_cancelled_record_counts_as_pending_after_its_time, delays.live, 1, "pending"),
        (a_repeated_request_counts_its_dead_letters_again, live_with_letters, 12, "dead letters are counted"),
    ],
    ids=["half messages", "delayed messages", "dead letters"],
)
def test_a_wrong_metric_is_detected(
    mutation: Any, life: Live, first: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(first, first + SEEDS_MAX):
        found = run(seed, life=life).violation
        if found is not None:
            print(f"seed {seed}: {found}")
            assert named in str(found)
            return
    raise AssertionError(f"{SEEDS_MAX} seeds did not detect the mutation")
