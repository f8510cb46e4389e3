"""Values of configs with units: `7 d`, `1 GiB`, `unlimited`. The suffix of its name (`.ms`, `.bytes`) determines the unit of a config. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

from brokerd.cluster.configs import LONG_MAX

S, MIN, H, D, W = 1000, 60_000, 3_600_000, 86_400_000, 604_800_000
MS = {"ms": 1, "s": S, "sec": S, "min": MIN, "h": H, "d": D, "day": D, "days": D, "w": W, "week": W, "weeks": W}
DECIMAL = {unit: 10 ** (3 * n) for n, unit in enumerate(("b", "kb", "mb", "gb", "tb"))}
BINARY = {unit: 2 ** (10 * n) for n, unit in enumerate(("kib", "mib", "gib", "tib"), 1)}
BYTES = {**DECIMAL, **BINARY}
UNLIMITED = ("unlimited", "forever", "no limit")
UNLIMITED_VALUES = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "local.retention.ms": "-1",
    "local.retention.bytes": "-1",
    **dict.fromkeys(
        (
            "flush.messages",
            "flush.ms",
            "max.compaction.lag.ms",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "leader.replication.throttled.rate",
            "follower.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        ),
        str(LONG_MAX),
    ),
}
"""The value that means no limit, by config: -1, or Kafka's largest number."""
NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def units_of(name: str) -> dict[str, int]:
    """The units that a config accepts, each with its size in the unit of the config; empty for a config without a unit."""
    if name.endswith(".ms"):
        return MS
    return BYTES if name.endswith(".bytes") else {}


def hint(name: str) -> str:
    """An example of a value with a unit, for a form; "" for a config without a unit."""
    units = units_of(name)
    return "" if not units else "for example 12 h, 7 d" if units is MS else "for example 64 MiB, 1 GiB"


def parse_value(name: str, text: str) -> str:
    """The value that the config stores. A plain number and a config without a unit do not change. Raises ValueError with the reason."""
    text, units = text.strip(), units_of(name)
    if text.lower() in UNLIMITED:
        if name not in UNLIMITED_VALUES:
            raise ValueError(f"{name} has no value for “{text}”. Enter a number.")
        return UNLIMITED_VALUES[name]
    found = NUMBER_AND_UNIT.fullmatch(text)
    if not units or found is None:
        return text
    size = units.get(found[2].lower())
    if size is None:
        raise ValueError(f"{name}: “{found[2]}” is not a unit here. Use {', '.join(units)}.")
    amount = Fraction(found[1]) * size
    if amount.denominator != 1:
        raise ValueError(f"{name}: {text} is not a whole number of {'milliseconds' if units is MS else 'bytes'}.")
    return str(int(amount))


def parsed_all(configs: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """(values by name, the reason of each value that cannot be read)."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for name, text in configs.items():
        try:
            values[name] = parse_value(name, text)
        except ValueError as e:
            problems.append(str(e))
    return values, problems
