"""Remote logs of followed partitions: the metadata that is read, the offsets that the follower reports, and the rebuilding of its view."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.remote.remote_log import RemoteLog
from brokerd.remote.segments import LogStart
from brokerd.remote.view import RemoteView
from brokerd.replication.partition import Role
from brokerd.runtime.remote_followers import RemoteFollowers
from tests.unit.remote.test_lineage import finished_segment, local
from tests.unit.remote.test_remote_log import TP

INDEX = 3


class Replica:
    """A follower whose local log starts at 5."""

    def __init__(self) -> None:
        self.tp, self.offline_reason = TP, None
        self.config = SimpleNamespace(remote_storage=True)
        self.core = SimpleNamespace(
            role=Role.FOLLOWER, leader_epoch=1, broker_id=2, state=SimpleNamespace(isr_ids=(1, 2))
        )
        self.log = SimpleNamespace(start_offset=5, epochs=local(100, (1, 0)))
        self.remote: RemoteView | None = None

    @property
    def remote_start_offset(self) -> int:
        return self.remote.start_offset(5) if self.remote is not None and self.remote.joins(5) else -1


class Scene:
    def __init__(self, by_rack: bool = True) -> None:
        self.replica, self.current, self.reported = Replica(), True, 0
        self.log = RemoteLog(TP)
        self.log.apply(finished_segment(0, 5))
        hooks = SimpleNamespace(resume=lambda tp: setattr(self, "reported", self.reported + 1))
        replica_manager: Any = SimpleNamespace(hosted={TP: self.replica}, hooks=hooks)
        metadata: Any = SimpleNamespace(partition_of=lambda tp: INDEX, is_current=lambda index: self.current)
        self.followers = RemoteFollowers(replica_manager, metadata, lambda index, tp: self.log, by_rack=by_rack)

    def poll(self) -> set[int]:
        needed = self.followers.needed()
        self.followers.update()
        return needed


def test_a_follower_reports_its_remote_records_once_when_the_metadata_is_read() -> None:
    scene = Scene()
    scene.current = False
    assert scene.poll() == {INDEX} and scene.replica.remote is not None
    assert not scene.replica.remote.loaded and not scene.reported
    scene.current = True
    scene.poll()
    scene.poll()
    assert scene.replica.remote_start_offset == 0 and scene.reported == 1
    scene.log.apply(LogStart(TP, 1, 3))
    scene.poll()
    assert scene.reported == 1, "nothing says that it has changed"
    scene.followers.on_remote_log_changed(TP)
    scene.poll()
    assert scene.replica.remote_start_offset == 3 and scene.reported == 2


def test_without_replica_selection_no_metadata_of_followed_partitions_is_read() -> None:
    scene = Scene(by_rack=False)
    assert scene.poll() == set() and scene.replica.remote is None


def test_a_replica_that_leads_or_is_not_tiered_any_more_keeps_no_view_of_a_follower() -> None:
    for change in (
        lambda r: setattr(r.config, "remote_storage", False),
        lambda r: setattr(r.core, "role", Role.HISTORY),
        lambda r: setattr(r, "offline_reason", "disk"),
    ):
        scene = Scene()
        scene.poll()
        change(scene.replica)
        assert scene.poll() == set() and scene.replica.remote is None and not scene.followers.followed
    scene = Scene()
    scene.poll()
    scene.replica.core.role, scene.replica.remote = Role.LEADER, (leader := RemoteView())
    assert scene.poll() == set() and scene.replica.remote is leader


def test_the_view_is_made_again_when_the_log_may_have_been_truncated() -> None:
    scene = Scene()
    scene.poll()
    assert scene.replica.remote is not None and scene.replica.remote.chain.segments
    scene.replica.log.epochs = local(100, (1, 0), (2, 3))  # an unclean election: epoch 1 ended at 3
    scene.replica.core.leader_epoch = 2
    scene.poll()
    assert not scene.replica.remote.chain.segments and scene.reported == 2
    scene.replica.core.state.isr_ids = (1,)
    scene.replica.log.epochs = local(100, (1, 0))
    scene.poll()
    assert scene.replica.remote.chain.segments


def test_metadata_that_is_read_from_its_start_again_begins_an_empty_view() -> None:
    scene = Scene()
    scene.poll()
    scene.followers.restart(INDEX)
    assert scene.replica.remote is None and not scene.followers.followed
    scene.current = False
    scene.poll()
    assert scene.replica.remote_start_offset == -1
