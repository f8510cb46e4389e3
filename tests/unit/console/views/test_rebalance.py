"""The rebalance proposal: goals in the order of their priority, and each broker before and after."""

from __future__ import annotations

import pytest
from django.test import Client

from console.views import rebalance
from controlplane.models import Broker
from controlplane.services import Rejected
from controlplane.services.rebalance import GOALS, Load
from tests.unit.controlplane.world import World


def test_the_review_of_the_move_has_the_chosen_goals(world: World, operator: Client) -> None:
    world.topic("flights", *[(1, 2)] * 6)
    page = operator.get("/brokers/rebalance/?goal=leaders&goal=replicas&tolerance=0.05").content.decode()
    assert "kind=rebalance&amp;step=review&amp;goal=leaders&amp;goal=replicas&amp;tolerance=0.05" in page
    assert "Review (" in page


def test_a_goal_that_is_not_reached_has_its_reason_and_advice(world: World, operator: Client) -> None:
    world.topic("flights", *[(1,)] * 4)
    page = operator.get("/brokers/rebalance/?goal=leaders").content.decode()
    assert 'data-obstacle="no_shared_replica"' in page and "increase the replication factor" in page
    assert "No changes: the list of goals shows why" in page
    chinese = operator.get("/brokers/rebalance/?goal=leaders", headers={"accept-language": "zh-hans"}).content.decode()
    assert 'data-obstacle="no_shared_replica"' in chinese and "increase the replication factor" not in chinese


def test_a_note_of_the_proposal_is_translated(world: World, operator: Client) -> None:
    world.topic("flights", *[(1, 2)] * 6)
    Broker.objects.filter(broker_id=3).update(alive=False)
    address = "/brokers/rebalance/?goal=leaders"
    assert "Broker 3 is down or cordoned: it gets no replicas" in operator.get(address).content.decode()
    chinese = operator.get(address, headers={"accept-language": "zh-hans"}).content.decode()
    assert 'data-note="brokers_closed"' in chinese and "Broker 3 已宕机或已停止分配" in chinese


@pytest.mark.parametrize("query", ["goal=beauty", "tolerance=much", "tolerance=-1"])
def test_an_invalid_choice_is_explained(world: World, operator: Client, query: str) -> None:
    assert operator.get(f"/brokers/rebalance/?{query}").status_code == 400


def test_the_selected_goals_are_first() -> None:
    assert rebalance._goals_in_order(["traffic", "disk", "traffic", "x"])[:2] == ["traffic", "disk"]
    assert sorted(rebalance._goals_in_order(["traffic"])) == sorted(GOALS)
    assert rebalance._number("") is None and rebalance._number("0.1") == 0.1
    with pytest.raises(Rejected, match=r"Enter 0\.1 for 10 %"):
        rebalance._number("10 %")


def test_metrics_are_compared_with_the_mean_before_and_after() -> None:
    def load(broker: int, replicas: int) -> Load:
        return Load(broker_id=broker, replicas=replicas, leaders=0, bytes=0, records_per_s=0)

    (one, columns), _ = rebalance._rows([load(1, 9), load(2, 3)], [load(1, 6), load(2, 6)])
    metric, leaders, *_ = columns
    assert (one, metric.before, metric.after, metric.skew_before, metric.skew_after) == (1, 9, 6, 50.0, 0.0)
    assert leaders.skew_before is None, "no deviation from a mean of zero"
    assert [c for c, m in zip(rebalance.COLUMNS, columns, strict=True) if m.in_bytes] == ["bytes"]
