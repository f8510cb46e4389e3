"""Requests of a leader for look-ups in remote segments: which segments they name, and what a missing response means."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from brokerd.remote.frames import HelperError
from brokerd.remote.lineage import Chain
from brokerd.remote.view import RemoteView
from brokerd.replication import remote_key_lookups
from brokerd.replication.remote_key_lookups import MARGIN_MS, RemoteKeyLookups
from brokerd.wire import versioned
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from tests.unit.remote.test_lineage import finished_segment
from tests.unit.replication.test_bootstrap import Leader

LOCAL_START = 8


class Scene(Leader):
    """Leads a partition whose records below 8 are only remote, in the segments [0, 3), [3, 6) and [6, 9)."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[Mapping[str, Any], int, Callable[[HelperError, Any], None]]] = []
        self.append(LOCAL_START + 2)
        self.replicate_to_log_end()
        self.replica.log.raise_start(LOCAL_START)
        self.replica.remote = self.view = RemoteView()
        self.view.loaded = True
        segments = [finished_segment(0, 3, (1, 0)), finished_segment(3, 6, (1, 3)), finished_segment(6, 9, (1, 6))]
        self.view.chain = Chain(tuple(replace(s, key_index_bytes=50, key_index_seed=9) for s in segments))
        self.lookups = RemoteKeyLookups(
            lambda operation, fields, timeout_ms, done: self.requests.append((fields, timeout_ms, done)),
            lambda s: [s.name, s.start_offset],
        )
        self.responses: list[KeyLookupResponse | None] = []

    def search(self, before: int = LOCAL_START, *, committed: bool = True) -> list[int]:
        """The start offsets of the segments that the request names."""
        query = KeyLookupRequest(key=b"k", before_offset=before, bytes_max=100, duration_ms_max=500)
        self.lookups.search(self.replica, query, committed=committed, done=self.responses.append)
        return [s[1] for s in self.requests[-1][0]["segments"]] if self.requests else []


def test_a_request_names_the_segments_below_the_offset_with_their_indexes() -> None:
    scene = Scene()
    assert scene.search() == [0, 3, 6]
    fields, timeout_ms, _ = scene.requests[0]
    assert fields["segments"][0][2:] == [50, 9] and timeout_ms == 500 + MARGIN_MS
    assert scene.search(before=4) == [0, 3]
    scene.view.log_start = 3
    assert scene.search(before=4) == [3]
    assert scene.requests[-1][0]["start"] == 3


def test_later_segments_with_aborted_transactions_are_named_too() -> None:
    scene = Scene()
    *others, last = scene.view.chain.segments
    scene.view.chain = Chain((*others, replace(last, aborted_count=1)))
    assert scene.search(before=2) == [0, 6]
    assert scene.requests[-1][0]["aborted"] == []
    scene.search(committed=False)
    assert scene.requests[-1][0]["aborted"] is None


def test_a_request_names_a_limited_number_of_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_key_lookups, "SEGMENTS_MAX", 2)
    assert Scene().search() == [3, 6]


def test_the_response_of_the_helper_is_decoded() -> None:
    scene = Scene()
    scene.search()
    response = KeyLookupResponse(matches=[], stop=LookupStop.LOG_START, next_before_offset=0)
    scene.requests[0][2](HelperError.NONE, base64.b64encode(versioned.encode(response, 0)).decode())
    assert scene.responses == [response]


def test_without_a_response_or_before_the_remote_log_is_loaded_there_is_no_result() -> None:
    scene = Scene()
    scene.search()
    scene.requests[0][2](HelperError.STORE_UNAVAILABLE, "away")
    scene.view.loaded = False
    scene.requests.clear()
    scene.search()
    assert scene.responses == [None, None] and not scene.requests
