"""A live update of a move, as the publisher sends it to pages. Its type is the publisher's, so that a missing field is an error of the type checker."""

from __future__ import annotations

from typing import Final

from controlplane.monitoring.live_shapes import MoveShape

MOVE: Final[MoveShape] = {
    "id": 1,
    "state": "running",
    "parts": 2,
    "parts_ended": 1,
    "parts_rejected": 0,
    "bytes_total": 10,
    "bytes_done": 5,
    "bytes_per_s": 1.0,
    "percent": 50.0,
    "eta_s": None,
    "needs_bytes_per_s": None,
    "waits_for": [],
    "throttle_bytes_per_s": None,
    "producers_p99_ms": None,
    "note": "",
    "note_phrase": {},
    "can": [],
}
