"""The report of `make bench-cold-matrix`: medians per cell, and the cells in which a limit is missed."""

from __future__ import annotations

from itertools import islice
from typing import Any

from bench.cold_matrix import COLD_TOPICS, COPIER_TOPIC, Disk, Load, cells, missed, table, topic_of, topics_of


def row(system: str, p50: float, p99: float, load: Load = Load.ONE, number: int = 1) -> dict[str, Any]:
    quiet = {"p50": 1.0, "p99": 4.0, "p999": 8.0, "max": 9.0, "load_mb_per_s": 0.0, "cpu": 0.1}
    cold = {"p50": p50, "p99": p99, "p999": 2 * p99, "max": 30.0, "load_mb_per_s": 50.0, "cpu": 0.2}
    return {
        "system": system,
        "round": number,
        "disk": Disk.PLAIN,
        "rate": "1,000/s",
        "acks": "1",
        "load": load,
        "quiet": quiet,
        "cold": cold,
    }


def test_limits_are_checked_against_the_quiet_pass_and_the_other_system() -> None:
    within = [row("weir", 1.1, 7.9), row("kraft", 1.2, 8.0)]
    assert missed(within) == []
    above = missed([row("weir", 1.3, 8.1), row("kraft", 9.0, 90.0)])
    assert [text.rpartition(": ")[2] for text in above] == [
        "p50 is 1.30 times the quiet one",
        "p99 is 2.02 times the quiet one",
    ]
    behind = missed([row("weir", 1.1, 5.0), row("kraft", 1.0, 6.0)])
    assert behind == ["plain, 1,000/s, 1, 1 reader: p50 1.1 ms, kraft 1 ms"]


def test_a_cell_has_the_medians_of_its_rounds_for_each_system() -> None:
    found = [row("weir", p50, 8.0, number=n) for n, p50 in enumerate((1.0, 5.0, 1.5))] + [row("kraft", 2.0, 40.0)]
    lines = table([*found, row("weir", 1.0, 6.0, Load.TEN)]).splitlines()[2:]
    assert len(lines) == 3, "one row per cell and system"
    assert lines[0].startswith(
        "| plain | 1,000/s, acks=1 | 1 reader | weir | 1 -> 1.5 | 4 -> 8 | 8 -> 16 | 1.50 | 2.00 |"
    )
    assert missed(found) == ["plain, 1,000/s, 1, 1 reader: p50 is 1.50 times the quiet one"]


def test_ten_readers_are_left_out_where_only_writes_are_limited() -> None:
    assert cells(Disk.READS, list(Load)) == list(Load)
    assert Load.TEN not in cells(Disk.WRITES, list(Load))


def test_one_reader_reads_all_topics_and_each_of_ten_readers_reads_its_own() -> None:
    every = [f"cold-{n}" for n in range(COLD_TOPICS)]
    assert list(islice(topics_of(0, 1), COLD_TOPICS + 1)) == [*every, "cold-0"]
    assert [next(topics_of(number, COLD_TOPICS)) for number in range(COLD_TOPICS)] == every
    assert list(islice(topics_of(3, COLD_TOPICS), 2)) == ["cold-3", "cold-3"]


def test_a_producer_with_acks_all_waits_for_the_broker_that_copies() -> None:
    assert topic_of("all", Load.COPY) == COPIER_TOPIC
    assert topic_of("1", Load.COPY) == topic_of("1", None) == "live-1"
    assert topic_of("all", Load.TEN) == topic_of("all", None) == "live-all"
