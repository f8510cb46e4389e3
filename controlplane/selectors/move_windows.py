"""State of the maintenance window of a move: open now or not."""

from __future__ import annotations

from django.utils import timezone

from controlplane.domain import window as windows
from controlplane.models import Move


def window_closed_reason(move: Move) -> str | None:
    """The reason why no copy of the move may start now, as a sentence; None = copies may start."""
    if move.window is None:
        return None
    window = move.window
    open_, until = windows.window_state(window, timezone.now())
    if open_:
        return None
    again = f"until {until:%Y-%m-%d %H:%M} UTC" if until is not None else "permanently"
    return f"The window of the move ({windows.text(window)}) is closed {again}."
