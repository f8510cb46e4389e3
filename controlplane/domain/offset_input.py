"""Text forms of an offset reset: a list of offsets as CSV or JSON, topics with partitions, a duration. Pure.

The CSV is that of kafka-consumer-groups (`--export`, `--from-file`): topic,partition,offset. Does not contain: the reset (`domain.offset_reset`).
"""

from __future__ import annotations

import csv
import json
import re

from controlplane.domain.errors import Rejected
from controlplane.domain.offset_reset_types import RESET_PARTITIONS_MAX, Key
from weir_common.json_values import Json
from weir_common.phrases import sentence

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII)
_SHORT = re.compile(r"(\d+) ?([smhd])", re.ASCII)


def offsets_of_text(text: str) -> dict[Key, int]:
    """Offsets from CSV, or from JSON: [{"topic", "partition", "offset"}, ...], also as "partitions" or "offsets" of an object. Raises Rejected with
    the line or the entry."""
    text = text.strip()
    entries = _json_entries(text) if text[:1] in ("[", "{") else _csv_entries(text)
    found: dict[Key, int] = {}
    for where, topic, index, offset in entries:
        if not isinstance(topic, str) or not topic:
            raise Rejected(sentence("{where}: the topic is missing.", where=where), "offsets")
        key = (topic, _number(where, "partition", index))
        value = _number(where, "offset", offset)
        if found.setdefault(key, value) != value:
            raise Rejected(
                sentence(
                    "{where}: {topic}-{key} has two offsets, {found} and {value}.",
                    where=where,
                    topic=topic,
                    key=key[1],
                    found=found[key],
                    value=value,
                ),
                "offsets",
            )
        if len(found) > RESET_PARTITIONS_MAX:
            raise Rejected(sentence("More than {max} partitions.", max=f"{RESET_PARTITIONS_MAX:,}"), "offsets")
    if not found:
        raise Rejected("The list of offsets is empty.", "offsets")
    return found


def _csv_entries(text: str) -> list[tuple[str, Json, Json, Json]]:
    out: list[tuple[str, Json, Json, Json]] = []
    for number, cells in enumerate(csv.reader(text.splitlines()), 1):
        cells = [c.strip() for c in cells]
        if not any(cells) or (number == 1 and cells == ["topic", "partition", "offset"]):
            continue
        if len(cells) != 3:
            raise Rejected(sentence("Line {number}: enter topic,partition,offset.", number=number), "offsets")
        out.append((f"Line {number}", cells[0], cells[1], cells[2]))
    return out


def _json_entries(text: str) -> list[tuple[str, Json, Json, Json]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise Rejected(sentence("The JSON is invalid: {detail}.", detail=e), "offsets") from e
    if isinstance(data, dict):
        data = data.get("partitions", data.get("offsets"))
    if not isinstance(data, list):
        raise Rejected('Enter a list of {"topic", "partition", "offset"}.', "offsets")
    out = []
    for number, entry in enumerate(data, 1):
        if not isinstance(entry, dict) or not {"topic", "partition", "offset"} <= entry.keys():
            fields = '{"topic", "partition", "offset"}'
            raise Rejected(sentence("Entry {number}: enter {fields}.", number=number, fields=fields), "offsets")
        out.append((f"Entry {number}", entry["topic"], entry["partition"], entry["offset"]))
    return out


def _number(where: str, what: str, value: Json) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise Rejected(
        sentence(
            "{where}: the {what} {value} is not a number of 0 or more.",
            where=where,
            what=what,
            value=repr(str(value)[:40]),
        ),
        "offsets",
    )


def scope_of_text(text: str) -> tuple[tuple[str, ...], tuple[Key, ...]]:
    """(whole topics, single partitions) from words like `orders` and `orders:0,3`, separated by spaces or lines. Raises Rejected."""
    topics: list[str] = []
    partitions: list[Key] = []
    for word in text.split():
        topic, colon, indexes = word.partition(":")
        if not colon:
            topics.append(topic.rstrip(","))
            continue
        for index in indexes.split(","):
            if not (topic and index.isascii() and index.isdigit() and len(index) < 10):
                raise Rejected(sentence("{word}: enter TOPIC or TOPIC:PARTITION,PARTITION.", word=repr(word)), "topics")
            partitions.append((topic, int(index)))
    return tuple(dict.fromkeys(topics)), tuple(dict.fromkeys(partitions))


def duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `15m`, `2h`, `1d` or an ISO 8601 duration (`PT15M`). Raises Rejected."""
    if short := _SHORT.fullmatch(text.strip()):
        return int(short[1]) * _UNITS_MS[short[2]]
    iso = _ISO.fullmatch(text.strip())
    if iso is None or not any(iso.groups()):
        raise Rejected(
            sentence("{value} is not a duration; use 90s, 15m, 2h, 1d or PT15M.", value=repr(text)), "duration"
        )
    return sum(int(n or 0) * _UNITS_MS[u] for n, u in zip(iso.groups(), "dhms", strict=True))
