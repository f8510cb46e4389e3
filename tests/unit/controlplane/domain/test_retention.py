"""When retention deletes unread records, compared with a segmented log that is deleted as brokers do it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from brokerd.cluster.configs import TopicConfig
from controlplane.domain.log_ends import LogEndHistory, RecordAge
from controlplane.domain.retention import Forecast, Limit, LogFacts, forecast


def config(**settings: str) -> TopicConfig:
    return TopicConfig.from_overrides({k.replace("_", "."): v for k, v in settings.items()})


RECORD = 330
"""Bytes, as in the demo."""


class SegmentedLog:
    """Deletes whole segments from its start according to `retention.bytes` and `retention.ms`."""

    def __init__(self, config: TopicConfig, segment_records: int) -> None:
        self.config, self.segment_records = config, segment_records
        self.bases, self.end, self.newest_ms = [0], 0, [0]

    def append(self, records: int, now_ms: int) -> None:
        self.end += records
        self.newest_ms[-1] = now_ms
        if self.end - self.bases[-1] >= self.segment_records:
            self.bases.append(self.end)
            self.newest_ms.append(now_ms)

    def retain(self, now_ms: int) -> None:
        while len(self.bases) > 1:
            first, second = self.bases[0], self.bases[1]
            large = (self.end - second) * RECORD >= self.config.retention_bytes >= 0
            old = self.config.retention_ms >= 0 and self.newest_ms[0] < now_ms - self.config.retention_ms
            if not (large or old):
                return
            assert second > first
            del self.bases[0], self.newest_ms[0]

    @property
    def facts(self) -> LogFacts:
        return LogFacts(self.bases[0], self.end, (self.end - self.bases[0]) * RECORD)


@pytest.mark.parametrize(
    ("topic", "limit"),
    [
        (config(retention_bytes=str(64 << 20), retention_ms="-1"), Limit.SIZE),
        (config(retention_ms="1200000"), Limit.TIME),
    ],
)
def test_a_group_at_60_percent_has_a_retention_forecast(topic: TopicConfig, limit: Limit) -> None:
    """The prediction is available from the first minute on and within 20 % of the result, until less than one segment remains."""
    produced, consumed = 333, 200
    log, ends = SegmentedLog(topic, (8 << 20) // RECORD if limit is Limit.SIZE else 5_000), LogEndHistory()
    said: list[tuple[int, Forecast]] = []
    for s in range(1, 4 * 3600):
        now = s * 1000
        log.append(produced, now)
        log.retain(now)
        ends.add(now, log.end)
        committed = consumed * s
        if committed < log.bases[0]:
            break
        found = forecast(topic, log.facts, committed, ends.age(committed, now), consumed, produced)
        if s >= 60:
            assert found is not None and found.limit is limit
            said.append((s, found))
    lost_s = s
    assert said and 600 < lost_s < 2 * 3600
    early = [(at, f) for at, f in said if at <= lost_s * 0.6]
    assert early and all(0.8 * (lost_s - at) <= f.in_s <= 1.05 * (lost_s - at) for at, f in early)
    assert all(f.in_s <= 1.05 * (lost_s - at) + 1 for at, f in said), "never later than it happens"
    assert all(b.in_s <= a.in_s + 20 for (_, a), (_, b) in pairwise(said)), "it does not jump"


def test_a_group_that_keeps_up_or_reads_an_unlimited_topic_has_no_forecast() -> None:
    log = LogFacts(0, 100_000, 33_000_000)
    kept = config(retention_bytes="64000000")
    assert forecast(kept, log, 50_000, RecordAge(25_000), 2000, 2000) is None
    assert (
        forecast(config(retention_bytes="64000000", retention_ms="-1"), log, 50_000, RecordAge(60_000), 2000, 2000)
        is None
    )
    assert forecast(config(cleanup_policy="compact"), log, 5, RecordAge(10**9), 0, 2000) is None
    assert forecast(config(retention_ms="-1"), log, 5, RecordAge(10**9), 0, 2000) is None
    assert forecast(kept, log, 100_000, RecordAge(0), 0, 2000) is None, "nothing is unread"


def test_a_stopped_group_has_a_forecast_by_time_without_new_records() -> None:
    found = forecast(config(retention_ms="600000"), LogFacts(0, 100, None), 50, RecordAge(540_000, at_least=True), 0, 0)
    assert found == Forecast(60.0, Limit.TIME, at_most=True)
