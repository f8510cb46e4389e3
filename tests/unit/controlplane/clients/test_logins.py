"""The delay after wrong passwords: none at first, then doubled up to a limit, and over with time."""

from __future__ import annotations

import pytest

from controlplane.clients.logins import wait_s


@pytest.mark.parametrize(
    ("failures", "since_s", "wait"),
    [(4, 0, 0.0), (5, 0, 1.0), (6, 0, 2.0), (8, 0, 8.0), (8, 5, 3.0), (8, 60, 0.0), (50, 0, 900.0), (10**6, 0, 900.0)],
)
def test_the_delay_doubles_up_to_its_limit(failures: int, since_s: float, wait: float) -> None:
    assert wait_s(failures, since_s, free=5, longest=900.0) == wait
