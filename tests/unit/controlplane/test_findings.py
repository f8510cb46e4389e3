"""Damaged copies that brokers tell of: read, kept as rows, mended by hand or by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from brokerd.cluster import znodes
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.store import Code, Result
from controlplane import findings
from controlplane.models import Change, ReplicaFinding, ReplicaRecovery
from controlplane.services import recovery
from tests.unit.controlplane.world import World


class Nodes:
    """A store that answers at once from a dict of paths; a path that is not there has no node."""

    def __init__(self, nodes: dict[str, bytes]) -> None:
        self.nodes = nodes
        self.codes: dict[str, Code] = {}

    def children(self, path: str, done: Any, watch: Any = None) -> None:
        names = tuple(p.rpartition("/")[2] for p in self.nodes if p.startswith(path + "/"))
        done(Result(self.codes.get(path, Code.OK), children=names))

    def get(self, path: str, done: Any, watch: Any = None) -> None:
        done(Result(self.codes.get(path, Code.OK if path in self.nodes else Code.NO_NODE), self.nodes.get(path, b"")))


def told(world: World, broker_id: int, kind: str, index: int = 0) -> dict[findings.Spot, str]:
    return {
        (TopicPartition(world.image.topic_ids["flights"], index), broker_id, kind): "the batch at position 9 is damaged"
    }


def test_both_kinds_of_nodes_are_read_and_a_broken_reading_changes_nothing() -> None:
    from uuid import UUID

    tp = TopicPartition(UUID(int=1), 3)
    nodes = Nodes(
        {
            znodes.findings(1): znodes.encode_findings(9, [znodes.Finding(tp, znodes.CORRUPT, "bits")]),
            znodes.offline(2): znodes.encode_offline(9, [tp]),
        }
    )
    reader = findings.Reader(nodes)  # type: ignore[arg-type]
    reader.look()
    both = {(tp, 1, "corrupt"): "bits", (tp, 2, "disk"): findings.OFFLINE_TEXT}
    assert reader.found == both
    nodes.codes[znodes.FINDINGS] = Code.CONNECTION_LOSS
    reader.look()
    assert reader.found == both, "who could not be asked has not said that all is well"
    nodes.codes.clear()
    nodes.nodes[znodes.findings(1)] = b"not ours"
    reader.look()
    assert reader.found == both
    nodes.nodes.clear()
    reader.look()
    assert reader.found == {}


@pytest.mark.django_db
def test_a_finding_opens_when_it_is_told_and_ends_when_it_is_told_no_more(world: World) -> None:
    world.topic("flights", (1, 2))
    assert findings.write(told(world, 2, "corrupt"), world.image)
    assert not findings.write(told(world, 2, "corrupt"), world.image), "told twice is told once"
    row = ReplicaFinding.objects.get()
    assert (row.topic_name, row.broker_id, row.kind, row.ended_at) == ("flights", 2, "corrupt", None)
    assert findings.write({}, world.image)
    row.refresh_from_db()
    assert row.ended_at is not None
    findings.write(told(world, 2, "corrupt"), world.image)
    assert ReplicaFinding.objects.count() == 2


@pytest.mark.django_db
def test_by_hand_nothing_happens_until_somebody_asks_and_the_finding_says_what_was_done(
    world: World, operator: APIClient
) -> None:
    world.topic("flights", (1, 2))
    findings.write(told(world, 2, "corrupt"), world.image)
    assert recovery.mend_findings() == []
    body = {"topic": "flights", "partition": 0, "broker_id": 2, "why": "bit rot"}
    assert operator.post("/api/v1/recoveries", body, format="json").status_code == 201
    (row,) = operator.get("/api/v1/findings?open=1").json()["rows"]
    assert (row["kind"], row["recovery_state"]) == ("corrupt", "asked")


@pytest.mark.django_db
def test_by_itself_damage_is_mended_a_few_at_a_time_and_what_mends_itself_is_left(world: World, settings: Any) -> None:
    settings.RECOVERY_BY_ITSELF = True
    world.topic("flights", *[(1, 2)] * 4)
    findings.write(
        {**told(world, 2, "lost", 0), **told(world, 2, "corrupt", 1), **told(world, 2, "disk", 2), **told(world, 2, "corrupt", 3)},
        world.image,
    )  # fmt: skip
    assert len(recovery.mend_findings()) == recovery.MENDED_AT_ONCE_MAX
    assert recovery.mend_findings() == []
    assert set(ReplicaRecovery.objects.values_list("partition", "who")) == {(1, "worker"), (2, "worker")}
    ReplicaRecovery.objects.update(state="done")
    assert len(recovery.mend_findings()) == 1
    assert ReplicaFinding.objects.filter(recovery__isnull=True).get().kind == "lost"


@pytest.mark.django_db
def test_the_last_copy_in_sync_is_never_thrown_away_and_not_asked_for_every_second(world: World, settings: Any) -> None:
    settings.RECOVERY_BY_ITSELF = True
    world.topic("flights", (1, 2))
    world.put("flights", 0, isr=(1,))
    findings.write(told(world, 1, "corrupt"), world.image)
    for _ in range(3):
        assert recovery.mend_findings() == []
    assert Change.objects.filter(verb="replica.recover", outcome="refused").count() == 1
    assert not ReplicaRecovery.objects.exists()
