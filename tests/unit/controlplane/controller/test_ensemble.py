"""Election of a controller and its reads of ZooKeeper, in a simulated ensemble."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster import znodes
from brokerd.cluster.requests import ControlledShutdown, ForwardedRequest
from brokerd.cluster.znodes import Proposals, Registration
from controlplane.controller.ensemble import Ensemble
from tests.simulation.ensemble import Ensemble as ZooKeeper
from tests.simulation.store import SimStore
from tests.simulation.world import MS, Node, World


class Candidate:
    """A controller candidate that records the values it receives."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.node = Node(scene.world, name)
        self.store = SimStore(scene.zookeeper, self.node, 3_000)
        self.heard: list[tuple[str, Any]] = []
        self.ensemble = Ensemble(self.store, name, self, self.node.clock)
        self.store.on_session = lambda state: (
            self.ensemble.on_connected() if state.value == "connected" else self.ensemble.on_disconnected()
        )

    def on_elected(self, controller_epoch: int, epoch_version: int, now: Any) -> None:
        self.heard.append(("elected", controller_epoch))

    def on_registrations(self, registrations: dict[int, Registration], now: Any) -> None:
        self.heard.append(("brokers", sorted(registrations)))

    def on_proposals(self, broker_id: int, broker_epoch: int, desired: Proposals, now: Any) -> None:
        self.heard.append(("proposed", (broker_id, broker_epoch)))

    def on_offline_partitions(self, broker_id: int, broker_epoch: int, partitions: Any, now: Any) -> None:
        self.heard.append(("offline", (broker_id, len(partitions))))

    def on_request(self, request: ForwardedRequest, now: Any) -> None:
        self.heard.append(("requested", request.request_id))

    def last_heard(self, what: str) -> Any:
        return [value for kind, value in self.heard if kind == what][-1]


class Scene:
    def __init__(self) -> None:
        self.world = World(3)
        self.zookeeper = ZooKeeper(self.world)
        self.candidates: list[Candidate] = []
        self.add("one")

    def add(self, name: str) -> Candidate:
        self.candidates.append(Candidate(self, name))
        self.run()
        return self.candidates[-1]

    def run(self, ms: int = 3_000) -> None:
        for _ in range(ms // 50):
            self.world.run(self.world.now_us + 50 * MS)
            for c in self.candidates:
                if c.node.alive:
                    c.store.pump()
                    c.ensemble.tick(c.node.clock())

    def write(self, path: str, data: bytes) -> None:
        self.candidates[0].store.create(path, data, lambda r: None)
        self.run()


@pytest.fixture
def ensemble_scene() -> Scene:
    return Scene()


def register(scene: Scene, broker: int) -> None:
    scene.write(znodes.broker(broker), Registration(broker, f"u{broker}", "h", 1, None, None, True).encode())


def test_one_candidate_acts_and_another_takes_over_with_the_next_epoch(ensemble_scene: Scene) -> None:
    first, second = ensemble_scene.candidates[0], ensemble_scene.add("two")
    assert first.ensemble.acting and not second.ensemble.acting and first.last_heard("elected") == 1
    first.node.crash()
    ensemble_scene.run(10_000)
    assert second.ensemble.acting and second.last_heard("elected") == 2


def test_a_candidate_that_resigns_is_not_elected_again_until_it_can_lead(ensemble_scene: Scene) -> None:
    only = ensemble_scene.candidates[0]
    only.ensemble.on_deposed()
    only.ensemble.resign()
    ensemble_scene.run()
    assert znodes.CONTROLLER not in ensemble_scene.zookeeper.znodes and not only.ensemble.acting
    only.ensemble.can_lead = True
    ensemble_scene.run()
    assert only.ensemble.acting and only.last_heard("elected") == 2


def test_registrations_are_read_at_each_change_and_a_malformed_one_is_skipped(
    ensemble_scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    only = ensemble_scene.candidates[0]
    assert only.last_heard("brokers") == []
    register(ensemble_scene, 4)
    register(ensemble_scene, 7)
    ensemble_scene.write(znodes.broker(9), b"{")
    assert only.last_heard("brokers") == [4, 7] and "malformed broker registration" in caplog.text


def test_proposals_and_offline_replicas_of_each_broker_are_read(
    ensemble_scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    ensemble_scene.write(znodes.proposals(4), znodes.encode_proposals(44, Proposals()))
    ensemble_scene.write(znodes.offline(4), znodes.encode_offline(44, frozenset()))
    ensemble_scene.write(znodes.proposals(5), b"[]")
    only = ensemble_scene.candidates[0]
    assert only.last_heard("proposed") == (4, 44) and only.last_heard("offline") == (4, 0)
    assert "malformed proposals: broker=5" in caplog.text


def test_a_request_is_read_once_per_term(ensemble_scene: Scene) -> None:
    only = ensemble_scene.candidates[0]
    request = ForwardedRequest("r-1", 4, 44, ControlledShutdown())
    ensemble_scene.write(znodes.request("r-1"), request.encode())
    ensemble_scene.run(5_000)
    assert [v for k, v in only.heard if k == "requested"] == ["r-1"]
    only.ensemble.term_started()
    ensemble_scene.run()
    assert [v for k, v in only.heard if k == "requested"] == ["r-1", "r-1"]


def test_a_standby_candidate_reads_only_the_registrations(ensemble_scene: Scene) -> None:
    second = ensemble_scene.add("two")
    register(ensemble_scene, 4)
    ensemble_scene.write(znodes.proposals(4), znodes.encode_proposals(1, Proposals()))
    assert second.last_heard("brokers") == [4]
    assert {kind for kind, _ in second.heard} == {"brokers"}
