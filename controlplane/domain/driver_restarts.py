"""When the worker starts a Spark driver again that has ended: the same rule for archives and for runs of Spark jobs. Pure."""

from __future__ import annotations

RESTARTS_MAX = 5
"""Consecutive restarts without progress in between. Beyond this number the job fails with the cause."""

RESTART_SECONDS = 5
"""Before the second consecutive restart; the first is immediate. The delay doubles with each further restart."""


def is_given_up(restarts_in_a_row: int) -> bool:
    return restarts_in_a_row >= RESTARTS_MAX


def restart_delay_s(restarts_in_a_row: int) -> float:
    """Seconds between the end of a driver and its restart."""
    return RESTART_SECONDS * 2**restarts_in_a_row if restarts_in_a_row else 0
