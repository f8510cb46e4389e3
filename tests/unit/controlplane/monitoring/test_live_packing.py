"""Updates on the channel layer: packed, unpacked, decoded only when their rows are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.monitoring import live_events, live_packing
from controlplane.monitoring.live_events import LiveUpdate
from controlplane.monitoring.live_packing import ReceivedData, object_name, pack, row_count, unpack

CASES: list[tuple[str, dict[str, Any], str, int]] = [
    (live_events.PARTITIONS, {"topic": "préférés", "partitions": [{"index": 0}, {"index": 1}]}, "préférés", 2),
    (live_events.LAG, {"group_id": "g:1", "partitions": []}, "g:1", 1),
    (live_events.TOPICS, {"topics": [{"name": "a"}], "gone": ["b", "c"]}, "", 3),
    (live_events.CLUSTER, {"topics": 3, "health": {"word": "healthy"}}, "", 1),
]


@pytest.mark.parametrize(("kind", "data", "name", "rows"), CASES)
def test_an_update_is_the_same_after_the_channel_layer(kind: str, data: dict[str, Any], name: str, rows: int) -> None:
    update = LiveUpdate(run="r", seq=4, kind=kind, data=data)
    received = unpack(json.loads(json.dumps(pack(update))))
    assert {**received, "data": dict(received["data"])} == update
    for each in (update, received):
        assert (object_name(each), row_count(each)) == (name, rows)
    assert received["data"].get("absent") is None and len(received["data"]) == len(data)


def test_data_is_decoded_when_a_row_is_read_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    update = LiveUpdate(run="r", seq=4, kind=live_events.PARTITIONS, data={"topic": "t", "partitions": [1]})
    received = unpack(pack(update))
    decoded: list[str] = []

    def loads(text: str) -> Any:
        decoded.append(text)
        return {"topic": "t", "partitions": [1]}

    monkeypatch.setattr(live_packing.json, "loads", loads)  # type: ignore[attr-defined]
    assert object_name(received) == "t" and row_count(received) == 1 and not decoded
    assert isinstance(received["data"], ReceivedData)
    assert received["data"]["partitions"] == [1] and received["data"]["topic"] == "t" and len(decoded) == 1
