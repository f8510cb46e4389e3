"""The recent past of the live figures, for charts: rates and lags as the feed said them. Law: memory only, bounded in subjects, points
and time; older history is the lake's. Called by the console (begin once per process, then series)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque

from controlplane import events
from controlplane.events import LiveUpdate
from controlplane.live import hub

SUBJECTS_MAX = 300
"""Charts remembered: the cluster's and those of the topics and groups that spoke last. Each costs about 60 kB when full."""

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
    """Listen to the feed of this process. Once; further calls do nothing."""
    global _begun
    if not _begun:
        _begun = True
        hub.listen(remember)


def figures(update: LiveUpdate) -> list[tuple[str, str, float]]:
    """(subject, figure, value) of everything in an update that a chart can draw."""
    kind, data = update["kind"], update["data"]
    found: list[tuple[str, str, float]] = []
    if kind == events.CLUSTER:
        found += [("cluster", f, data[f]) for f in CLUSTER_FIGURES if data.get(f) is not None]
    elif kind == events.TOPICS:
        for t in data["topics"]:
            if t.get("records_per_s") is not None:
                found.append((f"topic:{t['name']}", "records_per_s", t["records_per_s"]))
    elif kind == events.GROUPS:
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
            # The newest point moves until its time has come: the last value is never lost, and points are evenly thin.
            if len(points) > 1 and now - points[-2][0] < SPACING_S_MIN:
                points.pop()
            points.append((now, value))


def series(subject: str, figure: str) -> list[tuple[float, float]]:
    """[(unix seconds, value)], oldest first; empty when nothing was heard yet."""
    with _lock:
        return list(_kept.get((subject, figure), ()))
