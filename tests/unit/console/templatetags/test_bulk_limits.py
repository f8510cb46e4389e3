"""Limits are shown with the label and in the unit of their input."""

from __future__ import annotations

import pytest

from console.quota_forms import LABELS
from console.templatetags.bulk_limits import limit_label, limit_text
from controlplane.services.bulk_limits import THROTTLE


def test_a_limit_has_the_label_of_its_input() -> None:
    assert limit_label(THROTTLE) == "Throttle, MB/s"
    assert limit_label("producer_byte_rate") == LABELS["producer_byte_rate"]


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (None, THROTTLE, "no throttle"),
        (None, "producer_byte_rate", "no limit"),
        (2_000_000, THROTTLE, "2"),
        (1_048_576, "producer_byte_rate", "1.048576"),
        (250, "request_percentage", "250"),
    ],
)
def test_a_value_is_in_the_unit_of_the_label(value: float | None, name: str, text: str) -> None:
    assert limit_text(value, name) == text
