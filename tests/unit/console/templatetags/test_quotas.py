"""Rates of client quotas with their units."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from console.templatetags import quotas
from controlplane.domain.quota import QuotaUnit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2_400_000, QuotaUnit.BYTES_PER_S.value, "2.4 MB/s"),
        (12.5, "%", "12.5 %"),
        (3.0, "connections/s", "3 connections/s"),
    ],
)
def test_a_rate_is_shown_in_its_unit(value: float, unit: str, text: str) -> None:
    assert quotas.rate(value, unit) == text
    assert quotas.limit(SimpleNamespace(value=value, unit=unit)) == text
