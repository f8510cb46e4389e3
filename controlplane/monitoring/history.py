"""Recent history of live figures for charts: rates and lags from live updates. In memory, bounded in subjects, points and time.

Each process calls `begin` one time, then `series`. Older history is in the lake.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque

from controlplane.monitoring import live_events
from controlplane.monitoring.hub import hub
from controlplane.monitoring.live_events import LiveUpdate

SUBJECTS_MAX = 300
"""Stored charts: the cluster's and those of the topics and groups with the latest updates. Each uses about 60 kB when full."""

POINTS_MAX = 450
"""Points kept of each series in memory: what a chart can show."""
SPACING_S_MIN = 2.0
"""Seconds between kept points: 450 of them are the last quarter of an hour, which is what a chart shows."""

Key = tuple[str, str]
"""(subject, figure): ("cluster", "records_per_s"), ("topic:flights", "records_per_s"), ("group:slow", "lag_records")."""

CLUSTER_FIGURES = ("records_per_s", "lag_records")

_lock = threading.Lock()
_kept: OrderedDict[Key, deque[tuple[float, float]]] = OrderedDict()
_begun = False


def begin() -> None:
    """Subscribe to live updates of this process. Idempotent."""
    global _begun
    if not _begun:
        _begun = True
        hub.listen(remember)


def figures(update: LiveUpdate) -> list[tuple[str, str, float]]:
    """(subject, figure, value) of everything in an update that a chart can draw."""
    kind, data = update["kind"], update["data"]
    found: list[tuple[str, str, float]] = []
    if kind == live_events.CLUSTER:
        found += [("cluster", f, data[f]) for f in CLUSTER_FIGURES if data.get(f) is not None]
    elif kind == live_events.TOPICS:
        for t in data["topics"]:
            if t.get("records_per_s") is not None:
                found.append((f"topic:{t['name']}", "records_per_s", t["records_per_s"]))
    elif kind == live_events.GROUPS:
        for g in data["groups"]:
            if g.get("lag_records") is not None:
                found.append((f"group:{g['group_id']}", "lag_records", g["lag_records"]))
    return found


def remember(update: LiveUpdate) -> None:
    now = time.time()
    with _lock:
        for subject, figure, value in figures(update):
            key = (subject, figure)
            points = _kept.get(key)
            if points is None:
                points = _kept[key] = deque(maxlen=POINTS_MAX)
                while len(_kept) > SUBJECTS_MAX:
                    _kept.popitem(last=False)
            _kept.move_to_end(key)
            # The newest point is replaced until the spacing is reached: the last value is always kept, and points are evenly spaced.
            if len(points) > 1 and now - points[-2][0] < SPACING_S_MIN:
                points.pop()
            points.append((now, value))


def series(subject: str, figure: str) -> list[tuple[float, float]]:
    """[(unix seconds, value)], oldest first; empty before the first update."""
    with _lock:
        return list(_kept.get((subject, figure), ()))
