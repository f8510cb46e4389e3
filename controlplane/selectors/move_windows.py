"""State of the maintenance window of a move: open now or not."""

from __future__ import annotations

from django.utils import timezone

from controlplane.domain import window as windows
from controlplane.models import Move
from weir_common.phrases import sentence


def window_closed_reason(move: Move) -> str | None:
    """The reason why no copy of the move may start now, as a sentence; None = copies may start."""
    if move.window is None:
        return None
    window = move.window
    open_, until = windows.window_state(window, timezone.now())
    if open_:
        return None
    if until is None:
        return sentence("The window of the move ({window}) is closed permanently.", window=windows.text(window))
    return sentence(
        "The window of the move ({window}) is closed until {time} UTC.",
        window=windows.text(window),
        time=f"{until:%Y-%m-%d %H:%M}",
    )
