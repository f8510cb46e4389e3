"""The alert about a share group that makes no progress: its causes, its advice, and the next steps."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import ShareGroupPartition
from controlplane.selectors.alerts import open_alerts, open_alerts_of_group
from controlplane.selectors.incidents import incident_list
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts
from controlplane.services.alert_thresholds import alter_threshold
from tests.unit.controlplane.world import World


def observe(group_id: str, index: int = 0, **values: Any) -> None:
    defaults = {"start_offset": 77, "lag_records": 40, "lag_ms": 90_000, "status": "stalled", "member_count": 1}
    ShareGroupPartition.objects.update_or_create(
        group_id=group_id, topic="orders", index=index, defaults={**defaults, "observed_at": timezone.now()} | values
    )


def evaluate_alerts() -> dict[str, Any]:
    alerts.evaluate()
    return {a.subject: a for a in open_alerts() if a.kind == "share_group_stopped"}


@pytest.mark.parametrize(
    ("values", "why", "do"),
    [
        ({"status": "stopped", "member_count": 0}, "it has no members", "Start its consumers"),
        ({"member_count": 0}, "no member has orders-0", "Check that its members subscribe to the topic"),
        ({}, "the start offset of orders-0 does not move", "A member may hold the record at the start offset"),
    ],
)
def test_each_cause_has_a_text_and_advice(world: World, values: dict[str, Any], why: str, do: str) -> None:
    observe("workers", **values)
    (alert,) = evaluate_alerts().values()
    assert alert.severity == "degraded"
    assert alert.text == f"Share group workers is stalled: {why}; lag 40 records (oldest unread: 2 min)."
    assert alert.do.startswith(do) and alert.do.endswith("has the start offset of each partition.")
    assert [a.kind for a in open_alerts_of_group("workers")] == ["share_group_stopped"]
    observe("workers", status="healthy")
    assert evaluate_alerts() == {}


def test_the_partition_with_the_oldest_record_is_named_and_the_lag_is_that_of_all(world: World) -> None:
    observe("workers", 0, lag_ms=90_000)
    observe("workers", 1, lag_ms=700_000, lag_at_least=True, lag_records=60)
    observe("workers", 2, lag_ms=9_000_000, lag_records=9_000, status="catching_up")
    (alert,) = evaluate_alerts().values()
    assert (
        "the start offset of orders-1 does not move; lag 100 records (oldest unread: more than 11 min)." in alert.text
    )


def test_many_share_groups_have_one_alert(world: World) -> None:
    alter_threshold("group_alerts_max", 3, actor="root")
    for n in range(5):
        observe(f"workers-{n}", lag_records=100 - n)
    (alert,) = evaluate_alerts().values()
    assert alert.subject == ""
    assert alert.text == "5 share groups (workers-0, workers-1, workers-2 and 2 more) are stalled."
    assert alert.do.startswith("Many share groups have the same cause") and next_steps(alert) == []


def test_the_next_step_is_the_record_at_the_start_offset_if_members_do_not_finish_it(world: World) -> None:
    observe("workers")
    observe("idle", status="stopped", member_count=0)
    steps = {name: [(s.kind, s.target) for s in next_steps(alert)] for name, alert in evaluate_alerts().items()}
    assert steps == {
        "workers": [("read_record", ["orders", "0", "77"]), ("open_share_group", ["workers"])],
        "idle": [("open_share_group", ["idle"])],
    }


def test_a_broker_that_is_down_explains_share_groups_that_read_its_partitions(world: World) -> None:
    world.topic("orders", (1, 2), (2, 3))
    world.offline("orders", 0)
    observe("workers", 0)
    observe("others", 1)
    world.down(1)
    alerts.evaluate()
    first, second = incident_list()
    assert first.cause.kind == "broker_down"
    assert ("share_group_stopped", "workers") in {(e.kind, e.subject) for e in first.effects}
    assert (second.cause.subject, second.effects) == ("others", [])
