"""Whether the window of a move is open now."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.domain import window as windows
from controlplane.models import Move
from controlplane.selectors import move_windows


@pytest.mark.parametrize(
    ("window", "hour", "text"),
    [
        (None, 12, None),
        ({"opens": "22:00", "stop_by": "05:30"}, 23, None),
        ({"opens": "22:00", "stop_by": "05:30"}, 12, "is closed until 2026-03-04 22:00 UTC."),
        ({"stop_by": "2026-03-03T00:00:00Z"}, 12, "is closed permanently."),
    ],
)
def test_a_closed_window_says_until_when(
    monkeypatch: pytest.MonkeyPatch, window: dict[str, str] | None, hour: int, text: str | None
) -> None:
    monkeypatch.setattr(move_windows.timezone, "now", lambda: datetime(2026, 3, 4, hour, tzinfo=UTC))
    move = Move(window=None if window is None else windows.read(window))
    found = move_windows.window_closed_reason(move)
    assert found is None if text is None else found is not None and found.endswith(text)
