"""Labels of verdicts."""

from __future__ import annotations

from console.templatetags.transactions import transaction_verdict
from controlplane.domain.transactions import TransactionVerdict


def test_every_verdict_has_a_label_and_what_hangs_is_red() -> None:
    shown = {v: transaction_verdict(v) for v in TransactionVerdict}
    assert len(set(shown.values())) == len(TransactionVerdict)
    assert {v for v, text in shown.items() if "st-red" in text} == {v for v in TransactionVerdict if v.hangs}
