"""What `make bench-many` says is over: each limit by itself, and honest about who was the limit."""

from __future__ import annotations

from typing import Any

from bench.many import Load, judged, told


def said(**changes: Any) -> dict[str, Any]:
    start = {"seconds": 5.0, "cpu_s": 5.0, "rss_mb": 80.0}
    broker_bound = told([Load(50_000.0, 20.0, 1.0)])
    return {
        "few": broker_bound, "many": broker_bound, "raw_few": broker_bound, "raw_many": broker_bound, "rss_mb_after_load": 80.0, "clean_start": start,
        "start_after_kill": start, **changes,
    }  # fmt: skip


def test_each_limit_is_seen_alone() -> None:
    assert judged(said()) == []
    assert judged(said(clean_start={"seconds": 10.1, "rss_mb": 80.0})) == ["clean start"]
    assert judged(said(start_after_kill={"seconds": 30.1, "rss_mb": 80.0})) == ["start after kill -9"]
    assert judged(said(start_after_kill={"seconds": 5.0, "rss_mb": 301.0})) == ["memory"]
    assert judged(said(rss_mb_after_load=301.0)) == ["memory"]


def test_cpu_stands_for_rates_only_where_the_client_was_the_limit() -> None:
    slow_client, slow_broker = told([Load(20_000.0, 20.0, 0.4)]), told([Load(20_000.0, 20.0, 1.0)])
    assert judged(said(raw_many=slow_client)) == []
    assert judged(said(raw_many=slow_broker)) == ["throughput"]
    assert judged(said(raw_many=told([Load(20_000.0, 41.0, 0.4)]))) == ["throughput"]


def test_the_middle_pass_is_told_with_all_the_others() -> None:
    shown = told([Load(1.0, 9.0, 0.1), Load(3.0, 7.0, 0.3), Load(2.0, 8.0, 0.2)])
    assert (shown["records_per_s"], shown["broker_us_per_record"], shown["broker_busy"]) == (2, 8.0, 0.2)
    assert shown["records_per_s_of_each_pass"] == [1, 3, 2] and shown["client_bound"]
