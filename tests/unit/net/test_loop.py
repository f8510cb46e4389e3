"""The gap between two iterations of the loop is measured from the first iteration on."""

from __future__ import annotations

import time

from brokerd.net.loop import Loop


def test_only_a_gap_after_the_first_turn_counts_as_a_stall() -> None:
    loop, gaps = Loop(), list[int]()
    loop.watch_gaps(100, gaps.append)
    time.sleep(0.2)  # the start of a broker takes seconds on a busy machine
    loop.begin()
    ran: list[None] = []
    loop.call_later(0, lambda now: ran.append(time.sleep(0.2)))
    while not ran:  # the timer may not be due in the first turn
        loop.call_later(0, lambda now: None)
        loop.run_iteration()
    assert not gaps
    loop.call_later(0, lambda now: None)
    loop.run_iteration()
    assert len(gaps) == 1 and gaps[0] >= 200
    loop.close()
