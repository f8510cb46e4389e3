"""Acknowledgements of appends: at once, after the high watermark, after a change of the leader, and at the time-out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis.delayed_produce import ACKS_ALL, Acknowledgements, acknowledgement
from brokerd.apis.produce_results import NOT_LEADER, AppendOutcome, PartitionResult, PendingAppend
from brokerd.replication.purgatory import Purgatory
from brokerd.wire.errors import ErrorCode


class FakeReplica:
    def __init__(self, *, high_watermark: int = 0, flushed_end: int = 100, isr_size: int = 2) -> None:
        self.leads = True
        self.core = SimpleNamespace(leader_epoch=3, high_watermark=high_watermark, isr_size=isr_size, min_insync=2)
        self.log = SimpleNamespace(flushing=SimpleNamespace(acknowledgeable_end=flushed_end))

    def hw_key(self) -> int:
        return id(self)

    def pending_append(self, end: int = 10) -> PendingAppend:
        replica: Any = self
        return PendingAppend(replica, 3, end, end - 1, -1, 0)


class Scene:
    def __init__(self) -> None:
        self.now = SimpleNamespace(mono_ms=0)
        loop: Any = SimpleNamespace(now=self.now)
        self.purgatory = Purgatory()
        self.acknowledgements = Acknowledgements(loop, self.purgatory)
        self.responses: list[list[PartitionResult]] = []
        self.abandoned = False

    def wait(self, outcomes: list[AppendOutcome], acks: int = ACKS_ALL) -> None:
        self.acknowledgements.wait(outcomes, acks, 1_000, self.responses.append, lambda: self.abandoned)

    def errors(self) -> list[int]:
        return [result.error for result in self.responses[-1]]


def test_acks_1_waits_for_the_flushed_end_and_not_for_followers() -> None:
    scene, flushed, unflushed = Scene(), FakeReplica(), FakeReplica(flushed_end=9)
    scene.wait([flushed.pending_append()], 1)
    assert scene.errors() == [0] and scene.responses[0][0].base_offset == 9
    scene.wait([flushed.pending_append(), unflushed.pending_append()], 1)
    assert len(scene.responses) == 1
    unflushed.log.flushing.acknowledgeable_end = 10
    scene.purgatory.check(unflushed.hw_key())
    assert len(scene.responses) == 2 and scene.errors() == [0, 0]


def test_acks_all_waits_for_the_high_watermark_of_every_partition() -> None:
    scene, one, other = Scene(), FakeReplica(), FakeReplica()
    scene.wait([one.pending_append(), NOT_LEADER, other.pending_append()])
    one.core.high_watermark = 10
    scene.purgatory.check(one.hw_key())
    assert not scene.responses
    other.core.high_watermark = 10
    scene.purgatory.check(other.hw_key())
    assert scene.errors() == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]


def test_a_result_is_final_although_the_leader_changes_while_another_partition_waits() -> None:
    scene, one, other = Scene(), FakeReplica(high_watermark=10), FakeReplica()
    scene.wait([one.pending_append(), other.pending_append()])
    one.leads = other.leads = False
    scene.purgatory.check(other.hw_key())
    assert scene.errors() == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert scene.responses[-1][1].base_offset == -1


def test_pending_appends_time_out_and_an_abandoned_request_is_not_answered() -> None:
    scene, replica = Scene(), FakeReplica()
    scene.wait([replica.pending_append(), FakeReplica(high_watermark=10).pending_append()])
    scene.purgatory.expire(1_000)
    assert scene.errors() == [ErrorCode.REQUEST_TIMED_OUT, 0]
    scene.wait([replica.pending_append()])
    scene.abandoned = True
    scene.purgatory.expire(2_000)
    assert len(scene.responses) == 1 and not len(scene.purgatory)


def test_a_new_leader_epoch_and_a_small_isr_are_errors() -> None:
    replica = FakeReplica(high_watermark=10, isr_size=1)
    append = replica.pending_append()
    assert acknowledgement(append, ACKS_ALL) == append.error_result(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    replica.core.leader_epoch = 4
    assert acknowledgement(append, ACKS_ALL) == append.error_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
