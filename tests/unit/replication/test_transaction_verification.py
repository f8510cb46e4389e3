"""The first batch of a transaction waits for the coordinator's verification, and no later batch overtakes it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.replication.transaction_verification import TransactionVerification
from brokerd.storage.producers import Producers
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import TRANSACTIONAL, BatchHeader

PID = 7


class Scene:
    def __init__(self, *, enabled: bool = True) -> None:
        self.producers = Producers()
        self.replica: Any = SimpleNamespace(
            tp=TopicPartition(UUID(int=1), 0),
            topic="t",
            log=SimpleNamespace(producers=self.producers),
            leads=True,
            core=SimpleNamespace(leader_epoch=3),
        )
        self.requested: list[tuple[int, bool, Callable[[ErrorCode], None]]] = []
        self.reported: list[tuple[str, ErrorCode]] = []
        self.verification = TransactionVerification(
            lambda name, pid, epoch, place, add, done: self.requested.append((epoch, add, done)),
            enabled=lambda: enabled,
        )

    def is_needed(self, epoch: int = 0, add: bool = False) -> bool:
        return self.verification.needed(self.replica, PID, epoch, add=add)

    def send_request(self, who: str, epoch: int = 0, add: bool = False) -> None:
        self.verification.verify(
            self.replica, "id", PID, epoch, lambda error, why: self.reported.append((who, error)), add=add
        )

    def append_transactional_batch(self, epoch: int = 0, sequence: int = 0) -> None:
        header = BatchHeader(0, 61, 0, 2, 0, TRANSACTIONAL, 0, 0, 0, PID, epoch, sequence, 1)
        self.producers.on_appended(header, 0, 0)

    def append_commit_marker(self, epoch: int = 0) -> None:
        header = BatchHeader(0, 61, 0, 2, 0, TRANSACTIONAL | 0x20, 0, 0, 0, PID, epoch, -1, 1)
        self.producers.on_appended(header, 1, 0, Marker(True, 0))
        self.verification.marker_written(self.replica.tp, PID)


def test_only_the_first_batch_of_a_transaction_needs_verification() -> None:
    scene = Scene()
    assert scene.is_needed()
    scene.append_transactional_batch()
    assert not scene.is_needed()
    assert scene.is_needed(epoch=1), "another epoch is another transaction"
    scene.append_commit_marker()
    assert scene.is_needed()
    assert not Scene(enabled=False).is_needed()
    assert Scene(enabled=False).is_needed(add=True), "nobody else tells the coordinator"


def test_batches_during_a_verification_wait_and_complete_in_order() -> None:
    scene = Scene()
    scene.send_request("first", add=True)
    assert scene.is_needed()
    scene.send_request("second", add=True)
    assert [(e, add) for e, add, _ in scene.requested] == [(0, True)], "one query for both"
    scene.requested[0][2](ErrorCode.NONE)
    assert scene.reported == [("first", ErrorCode.NONE), ("second", ErrorCode.NONE)]
    assert scene.is_needed(), "nothing was written yet"


def test_a_verification_is_invalid_after_the_transaction_marker() -> None:
    scene = Scene()
    scene.send_request("late")
    scene.append_commit_marker()
    scene.requested[0][2](ErrorCode.NONE)
    assert scene.reported == [("late", ErrorCode.CONCURRENT_TRANSACTIONS)]


def test_a_rejected_verification_is_returned_and_the_next_batch_is_verified_again() -> None:
    scene = Scene()
    scene.send_request("late")
    scene.requested[0][2](ErrorCode.INVALID_TXN_STATE)
    scene.send_request("again")
    scene.requested[1][2](ErrorCode.NONE)
    assert scene.reported == [("late", ErrorCode.INVALID_TXN_STATE), ("again", ErrorCode.NONE)]


def test_a_verification_is_valid_for_one_producer_epoch() -> None:
    scene = Scene()
    scene.send_request("old", 0)
    scene.send_request("new", 1)
    scene.requested[1][2](ErrorCode.NONE)
    scene.requested[0][2](ErrorCode.PRODUCER_FENCED)
    assert scene.reported == [("new", ErrorCode.NONE), ("old", ErrorCode.PRODUCER_FENCED)]


def test_a_verification_is_valid_for_one_leader_epoch() -> None:
    scene = Scene()
    scene.send_request("before")
    scene.replica.core.leader_epoch = 5
    scene.send_request("after")
    assert len(scene.requested) == 2, "the earlier query is of another leader epoch"
    scene.requested[0][2](ErrorCode.NONE)
    scene.requested[1][2](ErrorCode.NONE)
    assert scene.reported == [("before", ErrorCode.NOT_LEADER_OR_FOLLOWER), ("after", ErrorCode.NONE)]
    scene.send_request("follower now")
    scene.replica.leads = False
    scene.requested[2][2](ErrorCode.NONE)
    assert scene.reported[-1] == ("follower now", ErrorCode.NOT_LEADER_OR_FOLLOWER)
