"""Thresholds for single objects: effect on alerts, validation, audit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.alert_thresholds import OVERRIDES_MAX, ThresholdName
from controlplane.models import Alert, AlertThresholdOverride, Broker, Change, ConsumerGroup, TopicMessages
from controlplane.selectors import alert_thresholds as selectors
from controlplane.selectors import groups
from controlplane.services import Rejected, alerts
from controlplane.services.alert_thresholds import alter_threshold, override_threshold
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def open_alerts() -> set[tuple[str, str, str]]:
    alerts.evaluate()
    return set(Alert.objects.filter(ended_at__isnull=True).values_list("kind", "subject", "severity"))


def test_the_value_of_a_broker_precedes_the_one_of_the_cluster(world: World) -> None:
    Broker.objects.filter(broker_id__in=(1, 2)).update(total_bytes=1000, free_bytes=150)
    override_threshold("disk_free_low", "2", 20, actor="alice", comment="small disk")
    assert open_alerts() == {("disk_low", "2", "degraded")}
    alter_threshold("disk_free_low", 30, actor="root")
    assert open_alerts() == {("disk_low", "1", "degraded"), ("disk_low", "2", "degraded")}
    override_threshold("disk_free_low", "1", 5, actor="alice", comment="known")
    assert open_alerts() == {("disk_low", "2", "degraded")}
    override_threshold("disk_free_low", "1", None, actor="alice")
    assert {subject for _, subject, _ in open_alerts()} == {"1", "2"}
    first = Change.objects.filter(verb="threshold.override").order_by("pk")[0]
    assert (first.actor, first.object_name, first.comment) == ("alice", "disk_free_low", "small disk")
    assert (first.before, first.after) == (
        {"value": 10},
        {"value": 20, "unit": "percent", "broker": "2", "own": True},
    )


def test_the_values_of_groups_decide_about_retention(world: World) -> None:
    for name, seconds in (("a", 5_000), ("b", 5_000), ("c", 50_000)):
        ConsumerGroup.objects.create(
            group_id=name,
            state="Stable",
            observed_at=timezone.now(),
            retention_in_s=seconds,
            retention_limit="retention.ms",
        )
    override_threshold("retention_ahead", "a", 2_000, actor="alice")
    override_threshold("retention_ahead", "c", 60_000, actor="alice")
    assert open_alerts() == {("group_retention", "b", "degraded"), ("group_retention", "c", "degraded")}
    override_threshold("retention_grave", "b", 6_000, actor="alice")
    assert ("group_retention", "b", "at_risk") in open_alerts()


def test_the_values_of_topics_decide_about_their_messages(world: World) -> None:
    now = timezone.now()
    for name in ("orders", "flights"):
        TopicMessages.objects.create(
            topic=name,
            half_undecided=1,
            half_oldest_at=now - timedelta(seconds=300),
            dead_letters_grown=5,
            sampled_at=now,
        )
    override_threshold("half_undecided", "orders", 600, actor="alice")
    override_threshold("dead_letters_grown", "flights", 5, actor="alice")
    assert open_alerts() == {
        ("half_undecided", "flights", "degraded"),
        ("dead_letters_growing", "flights", "degraded"),
    }


@pytest.mark.parametrize(
    ("name", "subject", "value", "field"),
    [
        ("disk_free_low", "one", 20, "subject"),
        ("disk_free_low", "", 20, "subject"),
        ("group_alerts_max", "a", 20, "subject"),
        ("group_behind", "a" * 256, 60, "subject"),
        ("group_behind", "a", 1, "value"),
        ("group_behind", "a", float("inf"), "value"),
        ("disk_free_low", "1", 2, "value"),
        ("no_such", "a", 1, "name"),
    ],
)
def test_a_wrong_value_changes_nothing(name: str, subject: str, value: float, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        override_threshold(name, subject, value, actor="alice")
    assert rejection.value.field == field and not AlertThresholdOverride.objects.exists()
    assert Change.objects.get().outcome == "refused"


def test_a_value_of_the_cluster_may_not_contradict_that_of_an_object() -> None:
    override_threshold("disk_free_low", "1", 8, actor="alice")
    with pytest.raises(Rejected, match="for broker 1"):
        alter_threshold("disk_free_least", 9, actor="root")


def test_the_number_of_objects_is_bounded() -> None:
    AlertThresholdOverride.objects.bulk_create(
        AlertThresholdOverride(name=ThresholdName.GROUP_BEHIND, subject=f"g{n}", value=60, changed_by="alice")
        for n in range(OVERRIDES_MAX)
    )
    override_threshold("group_behind", "g0", 90, actor="alice")
    with pytest.raises(Rejected, match="At most"):
        override_threshold("group_behind", "another", 90, actor="alice")
    override_threshold("group_behind", "g1", None, actor="alice")
    override_threshold("group_behind", "another", 90, actor="alice")


def test_a_stored_value_that_is_not_valid_any_more_has_no_effect() -> None:
    for name, value in (("group_behind", 1), ("group_alerts_max", 5), ("removed", 5)):
        AlertThresholdOverride.objects.create(name=name, subject="a", value=value, changed_by="alice")
    assert selectors.current_thresholds().overrides == {}
    assert all(row.overrides == [] for row in selectors.threshold_list())


def test_groups_have_their_thresholds_with_their_origins() -> None:
    for name in ("billing", "shop"):
        ConsumerGroup.objects.create(group_id=name, observed_at=timezone.now())
    override_threshold("group_behind", "billing", 90, actor="alice")
    rows = {r.group_id: (r.behind_threshold_s, r.behind_threshold_scope) for r in groups.group_list().rows}
    assert rows == {"billing": (90, "group"), "shop": (30, "cluster")}
    detail = groups.group_detail("billing")
    assert detail is not None
    found = {t.name: (t.value, t.scope) for t in detail.thresholds}
    assert (found["group_behind"], found["group_stall"]) == ((90, "group"), (30, "cluster"))
    assert set(found) == {"group_behind", "group_stall", "group_stopped", "retention_ahead", "retention_grave"}


def test_an_alert_has_the_thresholds_that_decided() -> None:
    override_threshold("disk_free_low", "2", 20, actor="alice")
    low, least = selectors.applied_thresholds("disk_low", "2")
    assert (low.name, low.value, low.scope) == ("disk_free_low", 20, "broker")
    assert (least.name, least.value, least.scope) == ("disk_free_least", 3, "cluster")
    assert [a.scope for a in selectors.applied_thresholds("disk_low", "1")] == ["cluster", "cluster"]
    assert selectors.applied_thresholds("broker_down", "1") == []
