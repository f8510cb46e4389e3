"""Live updates as the channel layer carries them. Pure.

Each web process receives each update, and shows few of them: the data is one JSON text, which is decoded when a page shows a row of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TypedDict

from controlplane.monitoring import live_events
from controlplane.monitoring.live_events import LiveUpdate


class PackedUpdate(TypedDict):
    """`name`: of the topic or group whose rows the update has, "" if it has rows of several. `data`: JSON."""

    run: str
    seq: int
    kind: str
    name: str
    rows: int
    data: str


class ReceivedData(Mapping[str, object]):
    """The data of a received update."""

    __slots__ = ("_decoded", "_text", "name", "rows")

    def __init__(self, packed: PackedUpdate) -> None:
        self.name, self.rows = packed["name"], packed["rows"]
        self._text = packed["data"]
        self._decoded: dict[str, object] | None = None

    def _data(self) -> dict[str, object]:
        if self._decoded is None:
            self._decoded, self._text = json.loads(self._text), ""
        assert self._decoded is not None
        return self._decoded

    def __getitem__(self, key: str) -> object:
        return self._data()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data())

    def __len__(self) -> int:
        return len(self._data())


def pack(update: LiveUpdate) -> PackedUpdate:
    return {
        "run": update["run"],
        "seq": update["seq"],
        "kind": update["kind"],
        "name": object_name(update),
        "rows": row_count(update),
        "data": json.dumps(update["data"], ensure_ascii=False, separators=(",", ":")),
    }


def unpack(packed: PackedUpdate) -> LiveUpdate:
    return {"run": packed["run"], "seq": packed["seq"], "kind": packed["kind"], "data": ReceivedData(packed)}


def object_name(update: LiveUpdate) -> str:
    """Return the topic or group whose rows the update has; "" if it has rows of several, or of none."""
    data = update["data"]
    if isinstance(data, ReceivedData):
        return data.name
    if update["kind"] == live_events.PARTITIONS:
        return str(data["topic"])
    return str(data["group_id"]) if update["kind"] == live_events.LAG else ""


def row_count(update: LiveUpdate) -> int:
    """Return the number of rows, at least 1."""
    data = update["data"]
    if isinstance(data, ReceivedData):
        return data.rows
    return max(1, sum(len(v) for v in data.values() if isinstance(v, list)))
