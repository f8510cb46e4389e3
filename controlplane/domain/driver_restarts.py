"""Rule for the restart of a Spark driver that has ended. Archives and runs of Spark jobs have the same rule. Pure."""

from __future__ import annotations

RESTARTS_MAX = 5
"""Maximum number of consecutive restarts without progress. After them the job fails with the cause."""

RESTART_SECONDS = 5
"""Delay before the second consecutive restart. The first restart is immediate. The delay doubles with each further restart."""


def is_given_up(restarts_in_a_row: int) -> bool:
    return restarts_in_a_row >= RESTARTS_MAX


def restart_delay_s(restarts_in_a_row: int) -> float:
    """Seconds between the end of a driver and its restart."""
    return RESTART_SECONDS * 2**restarts_in_a_row if restarts_in_a_row else 0
