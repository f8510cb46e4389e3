"""The sentence of each reason for the health of the cluster has its numbers, in one and in many."""

from __future__ import annotations

import string

import pytest

from controlplane.domain.cluster_health import REASON_TEXTS, HealthReason, reason_phrase


def test_each_reason_but_the_alert_has_a_text() -> None:
    assert set(REASON_TEXTS) == set(HealthReason) - {HealthReason.ALERT}


@pytest.mark.parametrize("reason", list(REASON_TEXTS))
@pytest.mark.parametrize("count", [1, 2, 12_345])
def test_a_sentence_has_its_numbers(reason: HealthReason, count: int) -> None:
    names = {name for _, name, _, _ in string.Formatter().parse(REASON_TEXTS[reason][0]) if name}
    text = str(reason_phrase(reason, dict.fromkeys(names, count)))
    assert text.endswith(".") and "{" not in text and text.count(f"{count:,}") >= bool(names)


def test_plurals() -> None:
    down = {"count": 1, "total": 3, "lacking": 2}
    assert str(reason_phrase(HealthReason.BROKERS_DOWN, down)) == "1 broker of 3 is down; 2 partitions lack a replica."
    down = {"count": 2, "total": 3, "lacking": 1}
    assert (
        str(reason_phrase(HealthReason.BROKERS_DOWN, down)) == "2 brokers of 3 are down; 1 partition lacks a replica."
    )
    with pytest.raises(KeyError):
        reason_phrase(HealthReason.ALERT, {})
