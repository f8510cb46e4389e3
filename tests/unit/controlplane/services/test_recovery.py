"""Recovery of damaged replicas: preconditions, completion and failure."""

from __future__ import annotations

import pytest

from controlplane.models import Change, ReplicaRecovery
from controlplane.services import Rejected, recovery
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


# -- replica recovery ------------------------------------------------------------------------------------------------------


def test_a_replica_is_recovered_when_it_is_back_in_sync_after_the_reset(world: World) -> None:
    world.topic("flights", (1, 2))
    row = recovery.recover_replica("flights", 0, 2, actor="alice", comment="bad disk")
    assert recovery.advance_recovery(row.pk) == "requested"
    recovery.mark_reset(row.reset_id, world.image.seq + 1, controller_epoch=3)
    assert recovery.advance_recovery(row.pk) == "reset"  # the projection has not seen the reset yet
    world.put("flights", 0, isr=(1,))
    assert recovery.advance_recovery(row.pk) == "copying"
    world.put("flights", 0, isr=(1, 2))
    assert recovery.advance_recovery(row.pk) == "done"
    assert recovery.working_recoveries() == []
    assert Change.objects.get(verb="replica.recover").outcome == "confirmed"


def test_the_last_in_sync_replica_is_never_deleted(world: World) -> None:
    world.topic("flights", (1, 2))
    world.put("flights", 0, isr=(2,), leader=2, leader_broker_epoch=102)
    with pytest.raises(Rejected, match="would lose records"):
        recovery.recover_replica("flights", 0, 2, actor="alice")


@pytest.mark.parametrize(
    ("topic", "partition", "broker", "text"),
    [("nope", 0, 1, "does not exist"), ("flights", 0, 3, "no replica"), ("flights", 9, 1, "does not exist")],
)
def test_a_missing_replica_cannot_be_recovered(
    world: World, topic: str, partition: int, broker: int, text: str
) -> None:
    world.topic("flights", (1, 2))
    with pytest.raises(Rejected, match=text):
        recovery.recover_replica(topic, partition, broker, actor="alice")


def test_a_replica_is_recovered_once_at_a_time(world: World) -> None:
    world.topic("flights", (1, 2))
    recovery.recover_replica("flights", 0, 2, actor="alice")
    with pytest.raises(Rejected, match="already"):
        recovery.recover_replica("flights", 0, 2, actor="bob")


def test_a_replica_that_was_moved_away_fails_its_recovery(world: World) -> None:
    world.topic("flights", (1, 2))
    row = recovery.recover_replica("flights", 0, 2, actor="alice")
    recovery.mark_reset(row.reset_id, 1, controller_epoch=3)
    world.begin_move("flights", 0, (1, 3))
    world.end_move("flights", 0)
    assert recovery.advance_recovery(row.pk) == "failed"
    assert ReplicaRecovery.objects.get().finished_at is not None
