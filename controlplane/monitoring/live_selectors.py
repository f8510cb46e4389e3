"""Live updates for sockets: the newest number, and the updates that a page missed.

The cluster monitor runs in this process (`hub`), or in another one: then `console.live_fanout` appends what it received to `received`.
"""

from __future__ import annotations

from controlplane.monitoring.hub import UpdateBuffer, hub
from controlplane.monitoring.live_events import LiveUpdate

received = UpdateBuffer()
"""Updates of a cluster monitor in another process. Only the event loop of the sockets changes it."""


def latest() -> tuple[str, int]:
    """(run, seq) of the newest update. A page contains this position, and its socket sends all later updates. Number 0: there was no update yet."""
    local = hub.latest()
    return local if local[1] or not received.seq else (received.run, received.seq)


def since(run: str, seq: int) -> list[LiveUpdate] | None:
    """Updates after `seq` of `run`; None = no longer buffered, or another run: reload the page."""
    missed = hub.since(run, seq)
    return received.since(run, seq) if missed is None else missed


def newest(kind: str, run: str, seq: int) -> LiveUpdate | None:
    """The newest update of the kind up to `seq` of `run`; None if it is not buffered."""
    return hub.newest(kind, run, seq) or received.newest(kind, run, seq)


def is_local(run: str) -> bool:
    """True if the cluster monitor of this process published the run."""
    return run == hub.run
