"""Login delay after wrong passwords. Pure. A user who mistypes a few times has no delay. A program that guesses gets a few attempts per
hour. Invariant: no account is locked permanently, so that guesses with a user's name do not lock out that user.

Not django-axes: it needs an authentication backend, a middleware and three tables. One table, two counts and this function are enough."""

from __future__ import annotations

FREE_BY_PLACE, WAIT_BY_PLACE_SECONDS_MAX = 5, 900.0
"""Wrong passwords for one name from one address before the next attempt is delayed, and the longest delay. It doubles from one second."""
FREE_BY_NAME, WAIT_BY_NAME_SECONDS_MAX = 50, 30.0
"""Limit for one name from all addresses. It is higher than the limit of an address, and its delay is shorter, because guesses of others also delay the user."""
FORGOTTEN_SECONDS = 24 * 3600.0
"""Wrong passwords count for this time after the last one."""
ROWS_MAX = 10_000
"""Limit of stored names and addresses. Above it the oldest are deleted, so that invented names do not fill the database."""


def wait_s(failures: int, since_s: float, *, free: int, longest: float) -> float:
    """Seconds until the next attempt is allowed, `since_s` after the last of `failures` failures; 0 = now."""
    if failures < free:
        return 0.0
    return max(0.0, min(longest, 2.0 ** min(failures - free, 20)) - since_s)
