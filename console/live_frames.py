"""The messages of a live update to a browser. Pure.

Invariant: a message has at most FRAME_BYTES_MAX bytes, unless one entry alone is larger. The parts of an update that does not fit into one message have
the position before it, the last part has its own: a browser that reconnects between two parts gets the update again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from console.cells import PageUpdate
from controlplane.monitoring.age import DataAge

FRAME_BYTES_MAX = 10_000
"""Bytes of a message. A browser on a slow connection handles each message as soon as it has arrived."""

LISTS = ("cells", "points", "refresh", "gone")


def _encode(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _entries(out: PageUpdate) -> Iterator[tuple[str, str]]:
    for (subject, name), html in out.cells.items():
        yield "cells", _encode([subject, name, html])
    for (subject, name), value in out.points.items():
        yield "points", _encode([subject, name, value])
    for name in sorted(out.refresh):
        yield "refresh", _encode(name)
    for subject in sorted(out.gone):
        yield "gone", _encode(subject)


def frames(
    out: PageUpdate, before: tuple[str, int], upto: tuple[str, int], age: DataAge, panel_spread_ms: int
) -> list[str]:
    """`before`, `upto`: (run, seq) that the page has, and that it has after the last message. `panel_spread_ms`: time over which the page spreads
    its requests for panels."""

    def head(position: tuple[str, int]) -> str:
        fields = {
            "run": position[0],
            "seq": position[1],
            "age_s": age.age_s,
            "zookeeper_away": age.zookeeper_away,
            "samples_current": age.samples_current,
            "panel_spread_ms": panel_spread_ms,
        }
        return _encode(fields)[:-1]

    fixed = max(len(head(before)), len(head(upto))) + len(_encode({n: [] for n in LISTS}))
    parts: list[dict[str, list[str]]] = [{n: [] for n in LISTS}]
    size = fixed
    for name, text in _entries(out):
        weight = len(text.encode()) + 1
        if size + weight > FRAME_BYTES_MAX and size > fixed:
            parts.append({n: [] for n in LISTS})
            size = fixed
        parts[-1][name].append(text)
        size += weight
    positions = [before] * (len(parts) - 1) + [upto]
    return [
        head(position) + "".join(f',"{n}":[{",".join(part[n])}]' for n in LISTS) + "}"
        for part, position in zip(parts, positions, strict=True)
    ]
