"""Restarts of Spark drivers: the delay doubles, and their number is limited."""

from __future__ import annotations

from controlplane.domain.driver_restarts import RESTARTS_MAX, is_given_up, restart_delay_s


def test_the_first_restart_is_immediate_and_the_delay_doubles() -> None:
    assert [restart_delay_s(n) for n in range(5)] == [0, 10, 20, 40, 80]


def test_restarts_without_progress_are_limited() -> None:
    assert [is_given_up(n) for n in range(RESTARTS_MAX + 1)] == [False] * RESTARTS_MAX + [True]
