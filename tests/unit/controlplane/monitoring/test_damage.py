"""Damaged replicas that brokers report: read, stored as rows, repaired manually or automatically."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from brokerd.cluster import znodes
from brokerd.cluster.model import TopicPartition
from brokerd.cluster.store import Code, Result
from controlplane.models import Change, ReplicaDamageReport, ReplicaRecovery
from controlplane.monitoring import damage
from controlplane.services import recovery
from tests.unit.controlplane.world import World


class Nodes:
    """A store that answers immediately from a dict of paths. A path that is not in the dict has no node."""

    def __init__(self, nodes: dict[str, bytes]) -> None:
        self.nodes = nodes
        self.codes: dict[str, Code] = {}

    def children(self, path: str, done: Any, watch: Any = None) -> None:
        names = tuple(p.rpartition("/")[2] for p in self.nodes if p.startswith(path + "/"))
        done(Result(self.codes.get(path, Code.OK), children=names))

    def get(self, path: str, done: Any, watch: Any = None) -> None:
        done(Result(self.codes.get(path, Code.OK if path in self.nodes else Code.NO_NODE), self.nodes.get(path, b"")))


def damage_report(world: World, broker_id: int, kind: str, index: int = 0) -> dict[damage.DamageKey, str]:
    return {
        (TopicPartition(world.image.topic_ids["flights"], index), broker_id, kind): "the batch at position 9 is damaged"
    }


def test_both_kinds_of_nodes_are_read_and_an_interrupted_read_changes_nothing() -> None:
    from uuid import UUID

    tp = TopicPartition(UUID(int=1), 3)
    nodes = Nodes(
        {
            znodes.damage_reports(1): znodes.encode_damage_reports(
                9, [znodes.DamageReport(tp, znodes.CORRUPT, "bits")]
            ),
            znodes.offline(2): znodes.encode_offline(9, [tp]),
        }
    )
    reader = damage.DamageReader(nodes)  # type: ignore[arg-type]
    reader.poll()
    both = {(tp, 1, "corrupt"): "bits", (tp, 2, "disk"): damage.OFFLINE_TEXT}
    assert reader.found == both
    nodes.codes[znodes.DAMAGE_REPORTS] = Code.CONNECTION_LOSS
    reader.poll()
    assert reader.found == both, "who could not be asked has not said that all is well"
    nodes.codes.clear()
    nodes.nodes[znodes.damage_reports(1)] = b"not ours"
    reader.poll()
    assert reader.found == both
    nodes.nodes.clear()
    reader.poll()
    assert reader.found == {}


@pytest.mark.django_db
def test_a_damage_report_starts_and_ends_with_the_brokers_report(world: World) -> None:
    world.topic("flights", (1, 2))
    assert damage.write(damage_report(world, 2, "corrupt"), world.image)
    assert not damage.write(damage_report(world, 2, "corrupt"), world.image), "two reports are one report"
    row = ReplicaDamageReport.objects.get()
    assert (row.topic_name, row.broker_id, row.kind, row.ended_at) == ("flights", 2, "corrupt", None)
    assert damage.write({}, world.image)
    row.refresh_from_db()
    assert row.ended_at is not None
    damage.write(damage_report(world, 2, "corrupt"), world.image)
    assert ReplicaDamageReport.objects.count() == 2


@pytest.mark.django_db
def test_manual_recovery_needs_a_request_and_the_report_shows_it(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    damage.write(damage_report(world, 2, "corrupt"), world.image)
    assert recovery.repair_damaged_replicas() == []
    body = {"topic": "flights", "partition": 0, "broker_id": 2, "comment": "bit rot"}
    assert operator.post("/api/v1/recoveries", body, format="json").status_code == 201
    (row,) = operator.get("/api/v1/damage-reports?state=open").json()["rows"]
    assert (row["kind"], row["recovery_state"]) == ("corrupt", "requested")


@pytest.mark.django_db
def test_automatic_recovery_is_limited_and_skips_damage_that_repairs_itself(world: World, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, auto_recovery=True)
    world.topic("flights", *[(1, 2)] * 4)
    damage.write(
        {
            **damage_report(world, 2, "lost", 0),
            **damage_report(world, 2, "corrupt", 1),
            **damage_report(world, 2, "disk", 2),
            **damage_report(world, 2, "corrupt", 3),
        },
        world.image,
    )
    assert len(recovery.repair_damaged_replicas()) == recovery.AUTO_REPAIRS_MAX
    assert recovery.repair_damaged_replicas() == []
    assert set(ReplicaRecovery.objects.values_list("partition", "actor")) == {(1, "worker"), (2, "worker")}
    ReplicaRecovery.objects.update(state="done")
    assert len(recovery.repair_damaged_replicas()) == 1
    assert ReplicaDamageReport.objects.filter(recovery__isnull=True).get().kind == "lost"


@pytest.mark.django_db
def test_the_last_in_sync_replica_is_never_recovered_and_rarely_retried(world: World, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, auto_recovery=True)
    world.topic("flights", (1, 2))
    world.put("flights", 0, isr=(1,))
    damage.write(damage_report(world, 1, "corrupt"), world.image)
    for _ in range(3):
        assert recovery.repair_damaged_replicas() == []
    assert Change.objects.filter(verb="replica.recover", outcome="refused").count() == 1
    assert not ReplicaRecovery.objects.exists()
