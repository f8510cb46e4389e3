"""Labels of states and verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.templatetags.transactions import transaction_state, transaction_verdict
from controlplane.domain.transactions import TransactionVerdict
from controlplane.selectors.transactions import TransactionRow

ROW = TransactionRow("billing", "Ongoing", 1, 2, 3, timeout_ms=60_000, open_s=59.0, partitions=["orders-0"])


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_a_transaction_open_for_longer_than_its_timeout_is_a_warning(state: str) -> None:
    row = replace(ROW, state=state)
    assert "st-blue" in transaction_state(row)
    assert "st-blue" in transaction_state(replace(row, timeout_ms=None)), "the coordinator did not respond"
    overdue = transaction_state(replace(row, open_s=61.0))
    assert "st-amber" in overdue and "overdue" in overdue
    assert "st-amber" not in transaction_state(replace(row, state="CompleteCommit", open_s=None))


def test_every_verdict_has_a_label_and_what_hangs_is_red() -> None:
    shown = {v: transaction_verdict(v) for v in TransactionVerdict}
    assert len(set(shown.values())) == len(TransactionVerdict)
    assert "No coordinator has a transactional ID with this producer ID.</span>" in shown["unknown_producer"]
    assert {v for v, text in shown.items() if "st-red" in text} == {v for v in TransactionVerdict if v.hangs}
