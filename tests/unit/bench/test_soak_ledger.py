"""The soak's ledger counts missing, duplicate and reordered records. Does not start a client."""

from __future__ import annotations

from tests.soak.ledger import Ledger, LogResult


def test_the_log_is_compared_with_the_acknowledged_records() -> None:
    ledger = Ledger(acked={"a:0", "a:1", "b:0"})
    assert ledger.check_log({0: ["a:0", "b:0"], 1: ["a:1"]}) == LogResult(0, 0, 0)
    assert ledger.check_log({0: ["a:0", "b:0"], 1: ["a:1", "a:2"]}).is_correct, (
        "an unacknowledged record may be in the log"
    )
    assert ledger.check_log({0: ["a:0"], 1: ["a:1"]}) == LogResult(1, 0, 0)
    assert ledger.check_log({0: ["a:0", "b:0"], 1: ["a:1", "a:0"]}) == LogResult(0, 1, 1)
    assert ledger.check_log({0: ["b:0", "a:1", "a:0"]}) == LogResult(0, 0, 1)
    assert ledger.check_log({0: ["b:0", "a:1", "a:0"]}, ordered=False).is_correct, "copies have no order of their own"


def test_a_group_must_read_every_record_at_least_once() -> None:
    ledger = Ledger(acked={"a:0", "a:1"})
    assert ledger.missing_values("g") == {"a:0", "a:1"}
    ledger.read("g", ["a:0", "a:0"])
    assert (ledger.missing_values("g"), ledger.missing_values("g", {"a:0"}), ledger.repeated_count("g")) == (
        {"a:1"},
        set(),
        1,
    )
