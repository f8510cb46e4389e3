"""Thresholds as rows: those of health checks decide about no alert."""

from __future__ import annotations

import pytest

from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.models import AlertThreshold
from controlplane.selectors.alert_thresholds import current_thresholds, threshold_list, threshold_row

pytestmark = pytest.mark.django_db


def test_every_threshold_has_a_row_with_its_default() -> None:
    rows = {r.name: r for r in threshold_list()}
    assert list(rows) == list(ThresholdName) and all(r.is_default for r in rows.values())
    assert rows["health_replication"].alert_kinds == [] and rows["anomaly_distance"].alert_kinds == ["anomaly"]


def test_a_changed_value_is_in_force_and_an_invalid_one_is_not() -> None:
    AlertThreshold.objects.create(name="health_replication", value=3, changed_by="root")
    AlertThreshold.objects.create(name="health_leader_skew", value=-5, changed_by="root")
    assert current_thresholds()[ThresholdName.HEALTH_REPLICATION] == 3
    changed, invalid = threshold_row("health_replication"), threshold_row("health_leader_skew")
    assert changed is not None and (changed.value, changed.changed_by, changed.is_default) == (3, "root", False)
    assert invalid is not None and (invalid.value, invalid.is_default) == (50, True)
    assert threshold_row("none") is None
