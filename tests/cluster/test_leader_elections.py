"""Elections of preferred leaders on a whole local cluster, by REST and `weir elect_leaders`: a demoted broker is the reason of a rejection, an election is
confirmed, and Kafka's client sees the new leader.

The controller elects preferred leaders itself every five seconds. The test repeats until its own election is first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
TOPIC, BROKER, OTHER = "orders", 1, 2


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--controllers", "1", "--brokers", "2")
    try:
        devcluster.topic(TOPIC, partitions=2, assignment={"0": [BROKER, OTHER], "1": [OTHER, BROKER]})
        yield devcluster
    finally:
        devcluster.end()


def preview(devcluster: DevCluster) -> Any:
    return devcluster.get(f"leader-elections?topic={TOPIC}")


def verdicts(devcluster: DevCluster) -> dict[int, str]:
    return {r["index"]: r["verdict"] for r in preview(devcluster)["rows"]}


def demote_broker(devcluster: DevCluster) -> None:
    devcluster.post(f"brokers/{BROKER}/demote", {"comment": "test"})
    wait_for(lambda: verdicts(devcluster) == {0: "leadership_disabled"}, "the demotion")
    wait_for(lambda: set(devcluster.leaders(TOPIC).values()) == {OTHER}, "the other leader")


def test_a_demoted_broker_is_not_elected_and_a_restored_one_is(devcluster: DevCluster) -> None:
    demote_broker(devcluster)
    assert devcluster.get("overview")["not_preferred"] >= 1
    status, rejection = devcluster.call("POST", "leader-elections", {"topic": TOPIC, "comment": "test"})
    assert status == 409 and "is demoted" in rejection["detail"]

    def has_leader() -> Any:
        demote_broker(devcluster)
        devcluster.post(f"brokers/{BROKER}/restore_leadership", {"comment": "test"})
        wait_for(lambda: verdicts(devcluster) != {0: "leadership_disabled"}, "the end of the demotion")
        found = devcluster.post("leader-elections", {"topic": TOPIC, "comment": "test"})
        return found if found["confirmed"] else None

    found = wait_for(has_leader, "an election that comes before that of the controller", 180)
    (row,) = [r for r in found["rows"] if r["outcome"] == "confirmed"]
    assert (row["index"], row["leader_before"], row["leader"], row["preferred"]) == (0, OTHER, BROKER, BROKER)
    assert devcluster.leaders(TOPIC) == {0: BROKER, 1: OTHER}
    wait_for(lambda: verdicts(devcluster) == {}, "the observed leader")
    change = devcluster.get("changes?query=elect_preferred&outcome=confirmed&limit=1")["rows"][0]
    assert (change["id"], change["object_name"]) == (found["change_id"], TOPIC)


def test_the_command_shows_the_preview_and_elects(devcluster: DevCluster) -> None:
    demote_broker(devcluster)
    found = json.loads(devcluster.manage("elect_leaders", "--topic", TOPIC, "--json"))
    assert [(r["index"], r["verdict"]) for r in found["rows"]] == [(0, "leadership_disabled")]
    devcluster.post(f"brokers/{BROKER}/restore_leadership", {"comment": "test"})
    wait_for(lambda: verdicts(devcluster) == {}, "the preferred leader")
    said = devcluster.manage("elect_leaders", "--topic", TOPIC, "--partition", "0", "--execute")
    assert "0 confirmed, 1 unchanged, 0 rejected, 0 unknown." in said
