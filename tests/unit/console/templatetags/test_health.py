"""Values and limits of health checks in words."""

from __future__ import annotations

import pytest

from console.templatetags.health import check_limit, check_state, check_value
from controlplane.selectors.health import HealthCheckRow, health_report


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1, "yes", "yes"),
        (0, "yes", "no"),
        (12.345, "percent", "12.3 %"),
        (4321, "percent", "4,321 %"),
        (7200, "seconds", "2 h"),
        (5, "count", "5"),
    ],
)
def test_values(value: float, unit: str, text: str) -> None:
    assert check_value(value, unit) == text


@pytest.mark.django_db
def test_limits_and_results() -> None:
    rows: dict[str, HealthCheckRow] = {c.name: c for c in health_report().checks}
    assert check_limit(rows["controller"]) == "yes" and check_limit(rows["offline_partitions"]) == "0"
    assert check_limit(rows["disk_free"]) == "at least 10 %" and check_limit(rows["leader_balance"]) == "at most 50 %"
    assert "unknown" in check_state("unknown")
