"""The verdicts of `make bench-many`: each limit is checked alone, and the report names the limit that was reached."""

from __future__ import annotations

from typing import Any

from bench.many import Load, exceeded_limits, reported


def comparison_result(**changes: Any) -> dict[str, Any]:
    start = {"seconds": 5.0, "cpu_s": 5.0, "rss_mb": 80.0}
    broker_bound = reported([Load(50_000.0, 20.0, 1.0)])
    return {
        "few": broker_bound,
        "many": broker_bound,
        "raw_few": broker_bound,
        "raw_many": broker_bound,
        "rss_mb_after_load": 80.0,
        "clean_start": start,
        "start_after_kill": start,
        **changes,
    }


def test_each_limit_is_reported_separately() -> None:
    assert exceeded_limits(comparison_result()) == []
    assert exceeded_limits(comparison_result(clean_start={"seconds": 10.1, "rss_mb": 80.0})) == ["clean start"]
    assert exceeded_limits(comparison_result(start_after_kill={"seconds": 30.1, "rss_mb": 80.0})) == [
        "start after kill -9"
    ]
    assert exceeded_limits(comparison_result(start_after_kill={"seconds": 5.0, "rss_mb": 301.0})) == ["memory"]
    assert exceeded_limits(comparison_result(rss_mb_after_load=301.0)) == ["memory"]


def test_cpu_time_is_compared_only_where_the_client_was_the_limit() -> None:
    slow_client, slow_broker = reported([Load(20_000.0, 20.0, 0.4)]), reported([Load(20_000.0, 20.0, 1.0)])
    assert exceeded_limits(comparison_result(raw_many=slow_client)) == []
    assert exceeded_limits(comparison_result(raw_many=slow_broker)) == ["throughput"]
    assert exceeded_limits(comparison_result(raw_many=reported([Load(20_000.0, 41.0, 0.4)]))) == ["throughput"]


def test_the_median_run_is_reported_with_all_runs() -> None:
    shown = reported([Load(1.0, 9.0, 0.1), Load(3.0, 7.0, 0.3), Load(2.0, 8.0, 0.2)])
    assert (shown["records_per_s"], shown["broker_us_per_record"], shown["broker_busy"]) == (2, 8.0, 0.2)
    assert shown["records_per_s_of_each_pass"] == [1, 3, 2] and shown["client_bound"]
