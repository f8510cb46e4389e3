"""The stored form of a `Track`: the values of a row, with which a new process continues without losing or inventing a status. Pure."""

from __future__ import annotations

from collections import deque
from typing import TypedDict

from controlplane.domain.lag import LagSample, LagStatus, Track

STORED_COMMITS = 20
"""Commits that a row stores in addition to the oldest: the newest minutes of a consumer that commits often."""


class StoredTrack(TypedDict):
    """A `Track` as JSON: `commits` and `newest` are [at_ms, committed, end], `waits` [at_ms, duration_ms]."""

    commits: list[list[int]]
    newest: list[int] | None
    moved_ms: int | None
    waiting_ms: int | None
    waits: list[list[int]]
    trend_status: str
    alone_ms: int | None
    had_members: bool
    rewound_ms: int | None
    lost_ms: int | None
    lost_records: int
    lost_upto: int


def track_to_json(track: Track) -> StoredTrack:
    samples = [track.commits[0], *list(track.commits)[-STORED_COMMITS:]] if track.commits else []
    return {
        "commits": [[s.at_ms, s.committed, s.end] for s in dict.fromkeys(samples)],
        "newest": [track.newest.at_ms, track.newest.committed, track.newest.end] if track.newest else None,
        "moved_ms": track.moved_ms,
        "waiting_ms": track.waiting_ms,
        "waits": [list(w) for w in track.waits],
        "trend_status": track.trend_status.value,
        "alone_ms": track.alone_ms,
        "had_members": track.had_members,
        "rewound_ms": track.rewound_ms,
        "lost_ms": track.lost_ms,
        "lost_records": track.lost_records,
        "lost_upto": track.lost_upto,
    }


def track_from_json(stored: StoredTrack) -> Track:
    return Track(
        commits=deque(LagSample(*s) for s in stored["commits"]),
        newest=LagSample(*stored["newest"]) if stored["newest"] else None,
        moved_ms=stored["moved_ms"],
        waiting_ms=stored["waiting_ms"],
        waits=[(at, ms) for at, ms in stored["waits"]],
        trend_status=LagStatus(stored["trend_status"]),
        alone_ms=stored["alone_ms"],
        had_members=stored["had_members"],
        rewound_ms=stored["rewound_ms"],
        lost_ms=stored["lost_ms"],
        lost_records=stored["lost_records"],
        lost_upto=stored["lost_upto"],
    )
