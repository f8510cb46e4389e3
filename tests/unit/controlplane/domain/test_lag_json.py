"""The stored form of the progress of a group: nothing is lost over JSON, and a row has a bounded number of commits."""

from __future__ import annotations

import json
from collections import deque

from controlplane.domain.lag import LagSample, LagStatus, Track
from controlplane.domain.lag_json import STORED_COMMITS, track_from_json, track_to_json


def test_a_track_is_the_same_after_a_round_trip() -> None:
    track = Track(had_members=True, alone_ms=7, rewound_ms=8, lost_ms=9, lost_records=10, lost_upto=11, waiting_ms=12)
    for at_ms in (1_000, 2_000, 3_000):
        track.add(LagSample(at_ms, at_ms // 100, at_ms // 50), 0)
    track.waits, track.trend_status = [(1_000, 500)], LagStatus.FALLING_BEHIND
    assert track_from_json(json.loads(json.dumps(track_to_json(track)))) == track


def test_a_track_without_samples_has_none_afterwards() -> None:
    assert track_from_json(track_to_json(Track())) == Track()


def test_a_row_has_the_oldest_and_the_newest_commits() -> None:
    samples = [LagSample(n * 1_000, n, n + 5) for n in range(3 * STORED_COMMITS)]
    stored = track_to_json(Track(commits=deque(samples)))["commits"]
    assert stored == [[s.at_ms, s.committed, s.end] for s in (samples[0], *samples[-STORED_COMMITS:])]
