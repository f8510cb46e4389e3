"""A replica's log start offsets: local, on history replicas, in the remote store; and whether it may be used."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.remote.lineage import Chain
from brokerd.remote.view import FollowerView
from brokerd.replication.partition import Role
from brokerd.replication.replica import Replica
from tests.simulation.disk import SimDisk
from tests.unit.remote.test_lineage import finished_segment
from tests.unit.replication.test_relocations import Harness


def handed_over(offset: int = 5, **state: Any) -> Replica:
    """A leader whose local log starts at `offset`; brokers 8 and 9 have the records below."""
    harness = Harness(SimDisk())
    harness.append(10)
    replica = harness.replica
    replica.log.raise_start(offset)
    assert replica.core.state is not None
    fields = {"handover_offset": offset, "handover_epoch": 1, "history_replicas": (8, 9), **state}
    replica.core.state = replace(replica.core.state, **fields)
    replica.core.epoch_start = offset
    replica.log.epochs.entries[:] = [(0, 0)]
    return replica


def test_records_below_the_local_log_are_on_history_replicas() -> None:
    replica = handed_over()
    assert (replica.local_log_start_offset, replica.start_offset) == (5, 0)
    replica.history_start_offset = 3
    assert replica.start_offset == 3
    replica.core.state = replace(replica.core.state, log_start_floor=4)  # type: ignore[type-var]
    assert replica.start_offset == 4


@pytest.mark.parametrize(
    "state", [{"handover_offset": -1}, {"history_replicas": (1, 9)}, {"log_start_floor": 5}, {"handover_offset": 4}]
)
def test_without_a_hand_over_all_records_are_local(state: dict[str, Any]) -> None:
    replica = handed_over(**state)
    assert (replica.local_log_start_offset, replica.start_offset) == (0, 5)


def test_a_log_with_records_of_a_later_epoch_below_the_hand_over_is_not_contiguous() -> None:
    replica = handed_over()
    assert replica.is_contiguous
    replica.log.epochs.entries[:] = [(0, 0), (1, 4)]
    assert not replica.is_contiguous and replica.local_log_start_offset == 0
    replica.log.epochs.entries[:] = [(0, 0), (1, 5)]
    assert replica.is_contiguous
    replica.core.epoch_start = 4
    assert not replica.is_contiguous, "the leader began to write below the hand-over offset"


def test_the_remote_store_has_the_records_below_the_local_log() -> None:
    replica = handed_over(handover_offset=-1)
    replica.remote = SimpleNamespace(reaches_below=lambda at: at > 2, start_offset=lambda at: 2)  # type: ignore[assignment]
    assert replica.reads_remote and (replica.local_log_start_offset, replica.start_offset) == (5, 2)


def test_a_follower_without_remote_metadata_accepts_reads_of_remote_records() -> None:
    replica = handed_over(handover_offset=-1)
    replica.config = TopicConfig.from_overrides({"remote.storage.enable": "true"})
    replica.core.role = Role.FOLLOWER
    assert replica.reads_remote and (replica.local_log_start_offset, replica.start_offset) == (5, 5)
    assert replica.remote_start_offset == -1, "no consumer is redirected to it for remote records"
    replica.core.role = Role.LEADER
    assert not replica.reads_remote, "a leader has a view, or is not tiered"


def test_the_start_over_both_tiers_is_reported_when_the_remote_records_reach_the_local_log() -> None:
    replica = handed_over(handover_offset=-1)
    replica.remote = view = FollowerView()
    assert replica.remote_start_offset == -1
    view.loaded, view.chain = True, Chain((finished_segment(2, 4),))
    assert replica.remote_start_offset == -1 and replica.reads_remote
    view.chain = Chain((finished_segment(2, 6),))
    assert (replica.remote_start_offset, replica.start_offset) == (2, 2)


def test_a_follower_is_bootstrapped_on_request_and_an_observer_until_it_has_the_snapshot() -> None:
    replica = handed_over()
    assert not replica.awaits_bootstrap
    replica.needs_bootstrap = True
    assert replica.awaits_bootstrap
    replica.needs_bootstrap = False
    assert replica.core.state is not None
    replica.core.state = replace(replica.core.state, observers=(1,), tail_start=5)
    assert replica.observes and replica.awaits_bootstrap, "its log does not start with the snapshot"


def test_only_changes_of_an_append_problem_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    replica = handed_over()
    caplog.clear()
    caplog.set_level("INFO")
    for why in ("disk full", "disk full", None, None):
        replica.set_append_problem(why)
    assert [r.getMessage() for r in caplog.records] == [
        "appends suspended: partition=t-0 reason=disk full",
        "appends resumed: partition=t-0",
    ]


def test_an_offline_leader_does_not_lead() -> None:
    replica = handed_over()
    assert replica.leads
    replica.offline_reason = "EIO"
    assert not replica.leads
