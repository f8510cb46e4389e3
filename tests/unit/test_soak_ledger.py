"""The soak's ledger: what is missing, twice or out of order is counted as that. Does not start a client."""

from __future__ import annotations

from tests.soak.ledger import Found, Ledger


def test_a_log_is_held_against_what_was_acknowledged() -> None:
    ledger = Ledger(acked={"a:0", "a:1", "b:0"})
    assert ledger.judged({0: ["a:0", "b:0"], 1: ["a:1"]}) == Found(0, 0, 0)
    assert ledger.judged({0: ["a:0", "b:0"], 1: ["a:1", "a:2"]}).well, "written, and nobody was told"
    assert ledger.judged({0: ["a:0"], 1: ["a:1"]}) == Found(1, 0, 0)
    assert ledger.judged({0: ["a:0", "b:0"], 1: ["a:1", "a:0"]}) == Found(0, 1, 1)
    assert ledger.judged({0: ["b:0", "a:1", "a:0"]}) == Found(0, 0, 1)
    assert ledger.judged({0: ["b:0", "a:1", "a:0"]}, ordered=False).well, "copies have no order of their own"


def test_a_group_must_have_read_everything_once_at_least() -> None:
    ledger = Ledger(acked={"a:0", "a:1"})
    assert ledger.missing("g") == {"a:0", "a:1"}
    ledger.read("g", ["a:0", "a:0"])
    assert (ledger.missing("g"), ledger.missing("g", {"a:0"}), ledger.again("g")) == ({"a:1"}, set(), 1)
