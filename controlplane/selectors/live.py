"""The live feed for sockets: where it stands, and what a page missed."""

from __future__ import annotations

from controlplane.events import LiveUpdate
from controlplane.live import hub


def latest() -> tuple[str, int]:
    """(run, seq) of the newest update; pages carry it, sockets begin there."""
    return hub.latest()


def since(run: str, seq: int) -> list[LiveUpdate] | None:
    """Updates after `seq` of `run`; None = no longer known (or another run): read the page anew."""
    return hub.since(run, seq)
