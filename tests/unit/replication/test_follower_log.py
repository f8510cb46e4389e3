"""A follower's log: its fetch position, and the effects of its leader's responses."""

from __future__ import annotations

from dataclasses import replace

from brokerd.replication.fetch_client import Position
from brokerd.replication.follower_log import FollowerLogs
from brokerd.storage import observer_bootstrap, recovery
from brokerd.storage.producers import Duplicate
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.unit.replication.test_bootstrap import TP, Leader


class FormerLeader(Leader):
    """Broker 1 had five records as the leader of t-0. Now broker 2 leads, and broker 1 follows."""

    def __init__(self) -> None:
        super().__init__()
        self.append(5)
        self.replicate_to_log_end()
        self.run_until_idle()
        self.logs = FollowerLogs(self.replica_manager)
        self.apply_state(replace(self.state, leader=2, leader_broker_epoch=12, leader_epoch=1))

    def append_response(self, offset: int, hw: int, log_start: int = 0, *, damaged: bool = False) -> bool:
        """The leader's response with one record of its epoch at `offset`."""
        data = bytearray(records.build([Record(0, 2_000_000, b"k", b"new")]))
        records.stamp(data, 0, offset, 1)
        data[-1] ^= damaged
        return self.logs.append_fetched(TP, data, hw, log_start, self.now)

    @property
    def start_and_end_offset(self) -> tuple[int, int]:
        return self.replica.log.start_offset, self.replica.log.end_offset


def test_a_follower_fetches_from_its_end_and_a_leader_not_at_all() -> None:
    harness = FormerLeader()
    assert harness.logs.position(TP) == Position(5, 0, 0, awaits_bootstrap=False)
    harness.apply_state(replace(harness.state, leader=1, leader_broker_epoch=11, leader_epoch=2))
    assert harness.logs.position(TP) is None


def test_nothing_is_fetched_while_a_truncation_waits_for_a_flush() -> None:
    harness = FormerLeader()
    harness.replica.truncation_pending = True
    assert harness.logs.position(TP) is None


def test_fetched_records_are_appended_and_the_high_watermark_follows() -> None:
    harness = FormerLeader()
    assert harness.append_response(5, hw=6) and harness.start_and_end_offset == (0, 6)
    assert harness.replica.core.high_watermark == 6
    assert harness.append_response(6, hw=99)
    assert harness.replica.core.high_watermark == 7, "never above its own end"


def test_copied_bytes_are_not_those_of_clients() -> None:
    harness = FormerLeader()
    own = harness.replica.log.size_bytes
    assert (harness.replica.bytes_in, harness.replica.replication_bytes_in) == (own, 0)
    harness.append_response(5, hw=6)
    copied = harness.replica.log.size_bytes - own
    assert (harness.replica.bytes_in, harness.replica.replication_bytes_in) == (own, copied) and copied > 0
    harness.append_response(6, hw=7, damaged=True)
    assert harness.replica.replication_bytes_in == copied, "rejected"


def test_a_damaged_batch_is_fetched_again_and_reported_until_then() -> None:
    harness = FormerLeader()
    assert not harness.append_response(5, hw=6, damaged=True) and harness.start_and_end_offset == (0, 5)
    assert harness.replica.append_problem
    assert harness.append_response(5, hw=6) and harness.start_and_end_offset == (0, 6)
    assert harness.replica.append_problem is None


def test_the_leaders_log_start_deletes_older_records() -> None:
    harness = FormerLeader()
    assert harness.append_response(5, hw=6, log_start=4)
    assert harness.start_and_end_offset[0] == 4


def test_a_diverging_log_is_truncated_to_the_point_of_agreement_after_a_flush() -> None:
    harness = FormerLeader()
    harness.logs.truncate_to_divergence(TP, 0, 3, harness.now)
    if harness.replica.truncation_pending:
        assert harness.start_and_end_offset == (0, 5), "nothing is lost before the flush"
        harness.run_until_idle()
        harness.logs.truncate_to_divergence(TP, 0, 3, harness.now)
    assert harness.start_and_end_offset == (0, 3)
    (found,) = harness.replica_manager.truncations
    assert (found.tp, found.first_offset, found.end_offset, found.leader_epoch) == (TP, 3, 5, 1)
    assert found.high_watermark == 5 and found.at_ms == harness.now.wall_ms, "the high watermark before the truncation"


def test_a_log_that_agrees_with_the_leader_deletes_nothing() -> None:
    harness = FormerLeader()
    for _ in range(2):
        harness.logs.truncate_to_divergence(TP, 0, 5, harness.now)
        harness.run_until_idle()
    assert harness.start_and_end_offset == (0, 5) and not list(harness.replica_manager.truncations)


def test_a_log_below_the_leaders_start_is_reset_to_it() -> None:
    harness = FormerLeader()
    for _ in range(2):
        harness.logs.out_of_range(TP, 8, b"", harness.now)
        harness.run_until_idle()
    assert harness.start_and_end_offset == (8, 8)


def test_a_log_below_the_leaders_start_gets_the_producers_of_the_deleted_records() -> None:
    leader = Leader()
    batch = bytearray(records.build([Record(0, 1, None, b"v")], producer_id=7, producer_epoch=2, base_sequence=41))
    header = next(records.batches(batch))[1]
    leader.append(7)
    leader.replica.log.producers.on_appended(header, 7, 1)
    leader.append(1)
    leader.replicate_to_log_end()
    leader.replica.log.raise_start(8)
    snapshot = observer_bootstrap.snapshot_at_log_start(leader.replica.log)
    harness = FormerLeader()
    for _ in range(2):
        harness.logs.out_of_range(TP, 8, snapshot, harness.now)
        harness.run_until_idle()
    assert harness.start_and_end_offset == (8, 8)
    assert harness.replica.core.high_watermark <= 8
    assert isinstance(harness.replica.log.producers.check(header), Duplicate)
    assert not harness.replica.log.disk.exists(harness.replica.log.folder / recovery.TAIL_START)


def test_an_invalid_snapshot_deletes_nothing() -> None:
    harness = FormerLeader()
    for _ in range(2):
        harness.logs.out_of_range(TP, 8, b"damaged", harness.now)
        harness.run_until_idle()
    assert harness.start_and_end_offset == (0, 5) and harness.replica.append_problem


def test_a_log_that_the_leader_still_has_is_kept_when_out_of_range() -> None:
    harness = FormerLeader()
    harness.logs.out_of_range(TP, 2, b"", harness.now)
    harness.run_until_idle()
    assert harness.start_and_end_offset == (0, 5)


def test_a_log_that_ends_below_the_leaders_local_log_is_bootstrapped() -> None:
    harness = FormerLeader()
    harness.logs.moved_to_tier(TP, 5)
    assert not harness.replica.needs_bootstrap, "it reaches the leader's local log"
    harness.logs.moved_to_tier(TP, 6)
    assert harness.replica.needs_bootstrap
    harness.logs.out_of_range(TP, 6, b"", harness.now)
    assert not harness.replica.needs_bootstrap, "the leader has no remote records any more"
