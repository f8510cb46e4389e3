"""Live updates for sockets: the newest number, and the updates that a page missed."""

from __future__ import annotations

from controlplane.monitoring.hub import hub
from controlplane.monitoring.live_events import LiveUpdate


def latest() -> tuple[str, int]:
    """(run, seq) of the newest update. A page contains this position, and its socket sends all later updates."""
    return hub.latest()


def since(run: str, seq: int) -> list[LiveUpdate] | None:
    """Updates after `seq` of `run`; None = no longer buffered, or another run: reload the page."""
    return hub.since(run, seq)
