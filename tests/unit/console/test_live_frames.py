"""The messages of a live update: their size, and the positions in their parts."""

from __future__ import annotations

import json
from typing import Any

from console.cells import PageUpdate
from console.live_frames import FRAME_BYTES_MAX, frames
from controlplane.monitoring.age import DataAge

AGE = DataAge(1.5, zookeeper_away=False, samples_current=True)
BEFORE, UPTO = ("r", 3), ("r", 9)


def read(out: PageUpdate) -> list[dict[str, Any]]:
    texts = frames(out, BEFORE, UPTO, AGE, 4_000)
    assert all(len(t.encode()) <= FRAME_BYTES_MAX for t in texts)
    return [json.loads(t) for t in texts]


def test_a_small_update_is_one_message_with_its_position() -> None:
    out = PageUpdate(
        cells={("topic:a", "size"): "1"}, refresh={"topics"}, points={("cluster", "lag"): 2.0}, gone={"topic:b"}
    )
    (message,) = read(out)
    assert message == {
        "run": "r",
        "seq": 9,
        "age_s": 1.5,
        "zookeeper_away": False,
        "samples_current": True,
        "panel_spread_ms": 4_000,
        "cells": [["topic:a", "size", "1"]],
        "points": [["cluster", "lag", 2.0]],
        "refresh": ["topics"],
        "gone": ["topic:b"],
    }
    assert read(PageUpdate())[0]["seq"] == 9


def test_a_large_update_is_split_and_only_its_last_part_has_the_new_position() -> None:
    out = PageUpdate(gone={f"topic:{n}" for n in range(500)}, refresh={"topics"})
    for n in range(400):
        out.cells[f"topic:{n}", "size"] = f"<b>主题 {n}</b>" * 5
    messages = read(out)
    assert len(messages) > 3
    assert [m["seq"] for m in messages] == [3] * (len(messages) - 1) + [9]
    assert [tuple(c[:2]) for m in messages for c in m["cells"]] == list(out.cells)
    assert {g for m in messages for g in m["gone"]} == out.gone
    assert [r for m in messages for r in m["refresh"]] == ["topics"]


def test_an_entry_that_is_larger_than_a_message_is_sent_alone() -> None:
    out = PageUpdate(cells={("a", "x"): "1", ("b", "x"): "2" * FRAME_BYTES_MAX, ("c", "x"): "3"})
    messages = [json.loads(t) for t in frames(out, BEFORE, UPTO, AGE, 100)]
    assert [[c[0] for c in m["cells"]] for m in messages] == [["a"], ["b"], ["c"]]
