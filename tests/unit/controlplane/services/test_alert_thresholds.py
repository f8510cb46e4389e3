"""Changes of thresholds: validation, audit, and their effect on open alerts without a restart."""

from __future__ import annotations

import pytest

from controlplane.domain.alert_thresholds import RULES, ThresholdName
from controlplane.models import Alert, AlertThreshold, Broker, Change
from controlplane.selectors import alert_thresholds as selectors
from controlplane.services import Rejected, alerts
from controlplane.services.alert_thresholds import alter_threshold
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def open_kinds() -> list[tuple[str, str]]:
    alerts.evaluate()
    return list(Alert.objects.filter(ended_at__isnull=True).values_list("kind", "severity"))


def test_a_change_applies_to_the_next_evaluation_and_is_audited(world: World) -> None:
    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=150)
    assert open_kinds() == []
    alter_threshold("disk_free_low", 20, actor="root", comment="small disks")
    assert open_kinds() == [("disk_low", "degraded")]
    alter_threshold("disk_free_least", 16, actor="root")
    assert open_kinds() == [("disk_low", "at_risk")]
    alter_threshold("disk_free_least", None, actor="root")
    alter_threshold("disk_free_low", None, actor="root")
    assert open_kinds() == [] and not AlertThreshold.objects.exists()
    first = Change.objects.filter(verb="threshold.alter").order_by("pk")[0]
    assert (first.actor, first.object_name, first.comment, first.outcome) == (
        "root",
        "disk_free_low",
        "small disks",
        "confirmed",
    )
    assert (first.before, first.after) == ({"value": 10}, {"value": 20, "unit": "percent"})


def test_the_default_value_is_stored_as_no_row() -> None:
    alter_threshold("group_stall", 60, actor="root")
    assert selectors.current_thresholds()[ThresholdName.GROUP_STALL] == 60
    alter_threshold("group_stall", RULES[ThresholdName.GROUP_STALL].default, actor="root")
    assert not AlertThreshold.objects.exists()


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("disk_free_low", 91, "value"),
        ("disk_free_low", float("nan"), "value"),
        ("disk_free_low", 2, "value"),
        ("retention_grave", 8_000, "value"),
        ("group_alerts_max", 2.5, "value"),
        ("no_such", 1, "name"),
    ],
)
def test_a_wrong_value_changes_nothing_and_is_in_the_audit_log(name: str, value: float, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        alter_threshold(name, value, actor="root")
    assert rejection.value.field == field and not AlertThreshold.objects.exists()
    assert Change.objects.get().outcome == "refused"


def test_a_row_of_another_version_has_no_effect(world: World) -> None:
    AlertThreshold.objects.create(name="no_such", value=1, changed_by="x")
    AlertThreshold.objects.create(name="disk_free_low", value=1_000, changed_by="x")
    row = selectors.threshold_row("disk_free_low")
    assert row is not None and row.is_default and row.value == 10
    assert open_kinds() == []


def test_a_rejected_change_does_not_count_as_a_version() -> None:
    alter_threshold("disk_free_low", 20, actor="root", if_version=0)
    with pytest.raises(Rejected):
        alter_threshold("disk_free_low", 91, actor="root", if_version=1)
    with pytest.raises(Rejected, match="changed after"):
        alter_threshold("disk_free_low", 30, actor="root", if_version=0)
    row = selectors.threshold_row("disk_free_low")
    assert row is not None and (row.version, row.value) == (1, 20)
