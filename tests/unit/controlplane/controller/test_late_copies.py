"""A leader reports replicas that start too late for the ISR. The controller resets such a replica only if the
reset loses no data (decision 037)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.metadata import MetadataRecord, PartitionChanged, ReplicaReset
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.cluster.znodes import ResetProposal
from controlplane.controller.events import BrokersSeen, IsrProposed
from controlplane.services.recovery import CONTENT_UUID_VERSION
from tests.unit.controlplane.controller.test_proposals import TOPIC, TP, CoreHarness, registration


class ReturnedFollower(CoreHarness):
    """Broker 2 has returned. It follows the leader, broker 1, and is not in the ISR."""

    def __init__(self, **more: object) -> None:
        super().__init__()
        self.seen[2] = registration(2, 103)
        self.deliver(BrokersSeen(dict(self.seen)))
        self.image.topics[TOPIC].partitions[0] = replace(self.state, **more)  # type: ignore[arg-type]
        assert self.state.isr == (ReplicaIncarnation(1, 101),)

    def propose_reset(
        self,
        isr_member: ReplicaIncarnation = ReplicaIncarnation(2, 103),
        *,
        by: tuple[int, int] = (1, 101),
        epoch: int = 0,
    ) -> list[MetadataRecord]:
        return self.deliver(
            IsrProposed(*by, (), resets=(ResetProposal(TOPIC, 0, self.state.leader_epoch + epoch, isr_member),))
        )


def test_a_late_replica_is_reset_once_with_a_new_leader_epoch() -> None:
    core_harness = ReturnedFollower(elr=(2,))
    before = core_harness.state
    changed, reset = core_harness.propose_reset()
    assert isinstance(changed, PartitionChanged) and isinstance(reset, ReplicaReset)
    assert (reset.topic_id, reset.partition, reset.broker_id) == (TOPIC, 0, 2)
    assert UUID(reset.reset_id).version == CONTENT_UUID_VERSION, (
        "by this version the audit log distinguishes it from a requested reset"
    )
    assert (core_harness.state.leader, core_harness.state.leader_epoch) == (1, before.leader_epoch + 1)
    assert (core_harness.state.isr, core_harness.state.elr) == ((ReplicaIncarnation(1, 101),), ()), (
        "it proves nothing any more"
    )
    again = core_harness.propose_reset(epoch=-1)
    assert again == [], "the earlier proposal is still in the znode"


@pytest.mark.parametrize(
    ("isr_member", "by", "epoch"),
    [
        (ReplicaIncarnation(2, 102), (1, 101), 0),
        (ReplicaIncarnation(3, 103), (1, 101), 0),
        (ReplicaIncarnation(1, 101), (1, 101), 0),
        (ReplicaIncarnation(2, 103), (2, 103), 0),
        (ReplicaIncarnation(2, 103), (1, 101), -1),
    ],
    ids=["another life", "no replica", "in the ISR", "by who does not lead", "of another epoch"],
)
def test_a_late_replica_is_not_reset(isr_member: ReplicaIncarnation, by: tuple[int, int], epoch: int) -> None:
    core_harness = ReturnedFollower()
    assert core_harness.propose_reset(isr_member, by=by, epoch=epoch) == []
    assert core_harness.state.isr == (ReplicaIncarnation(1, 101),)


@pytest.mark.parametrize(("others", "goes"), [((1, 2), True), ((2,), False)], ids=["two holders", "the only one"])
def test_a_history_replica_is_reset_only_if_another_live_one_has_its_records(
    others: tuple[int, ...], goes: bool
) -> None:
    core_harness = ReturnedFollower(handover_offset=50, handover_epoch=1, history_replicas=others)
    assert any(isinstance(r, ReplicaReset) for r in core_harness.propose_reset()) == goes


def test_the_state_after_a_reset_can_be_applied() -> None:
    core_harness = ReturnedFollower()
    core_harness.propose_reset()
    again = type(core_harness.image).from_records(core_harness.image.records(), 1, "h", 1)
    state = again.partition(TP)
    assert isinstance(state, PartitionState) and state == core_harness.state
