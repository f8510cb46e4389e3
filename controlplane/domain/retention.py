"""Forecast of the time at which retention deletes records that a group has not read. Pure.

Invariants: the forecast is the earliest time that the values allow. Brokers delete whole segments, so the deletion occurs up to one segment
later. An unknown value gives no forecast. Does not contain: clocks, rows, reading of logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.configs import TopicConfig
from controlplane.domain.log_ends import RecordAge


class Limit(StrEnum):
    """The topic config that causes the deletion."""

    TIME = "retention.ms"
    SIZE = "retention.bytes"


@dataclass(frozen=True, slots=True)
class Forecast:
    """`at_most`: the lag in time is a lower bound, so the deletion may occur before `in_s`."""

    in_s: float
    limit: Limit
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The log of one partition: offsets, and bytes of the leader's replica (None = unknown)."""

    start: int
    end: int
    size_bytes: int | None


def forecast(
    config: TopicConfig,
    log: LogFacts,
    committed: int,
    age: RecordAge | None,
    consumed_per_s: float,
    produced_per_s: float,
) -> Forecast | None:
    """Return the time until the record at `committed` is deleted, if both rates stay. None if the record is read before, or if a value is unknown."""
    lag = log.end - committed
    if not config.deletes or lag <= 0 or committed < log.start:
        return None
    found = [
        f
        for f in (
            _by_time(config, lag, age, consumed_per_s),
            _by_size(config, log, lag, consumed_per_s, produced_per_s),
        )
        if f is not None
    ]
    return min(found, key=lambda f: f.in_s, default=None)


def _by_time(config: TopicConfig, lag: int, age: RecordAge | None, consumed_per_s: float) -> Forecast | None:
    """The unread records were produced at the rate `lag / age`. Each second of reading makes the first unread record younger by
    consumed rate / that rate."""
    if config.retention_ms < 0 or age is None:
        return None
    older_per_s = 1.0 - consumed_per_s * (age.ms / 1000) / lag
    if older_per_s <= 0:
        return None
    return Forecast(max(0, config.retention_ms - age.ms) / 1000 / older_per_s, Limit.TIME, age.at_least)


def _by_size(
    config: TopicConfig, log: LogFacts, lag: int, consumed_per_s: float, produced_per_s: float
) -> Forecast | None:
    records = log.end - log.start
    growth = produced_per_s - consumed_per_s
    if config.retention_bytes < 0 or not log.size_bytes or records <= 0 or growth <= 0:
        return None
    kept_records = config.retention_bytes / (log.size_bytes / records)
    return Forecast(max(0.0, kept_records - lag) / growth, Limit.SIZE)
