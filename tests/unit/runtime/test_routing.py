"""Which routes a broker runs: enabled ones, on the led partitions of their source, in their present definition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.authz.acls import Operation
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged, TopicDeleted
from brokerd.cluster.model import Now, TopicPartition
from brokerd.runtime import routing
from brokerd.runtime.routing import Routing
from brokerd.wire.errors import ErrorCode


class Scene:
    def __init__(self) -> None:
        self.image = Image()
        self.replica: Any = SimpleNamespace(tp=TopicPartition(UUID(int=1), 0), leads=True, hw_key=lambda: "hw")
        self.timers: list[Any] = []
        replica_manager: Any = SimpleNamespace(
            image=self.image, find_by_name=lambda topic, index: self.replica, topic_config=None
        )
        loop: Any = SimpleNamespace(now=Now(0, 0), call_at=lambda ms, call: self.timers.append(call))
        unused: Any = SimpleNamespace()
        self.watched: dict[Any, Any] = {}
        delivery: Any = SimpleNamespace(
            replica_manager=replica_manager, watch=self.watched.__setitem__, unwatch=self.watched.__delitem__
        )
        self.allowed: set[tuple[Any, ...]] = set()
        """(principal, operation, topic)."""
        principals: Any = SimpleNamespace(allowed=lambda *asked: asked in self.allowed)
        self.routing = Routing(delivery, loop, unused, unused, principals)

    def declare(self, generation: int, source: str = "s", **changes: Any) -> None:
        value = {"route_id": "id", "source": source, "bindings": [{"target": "t", "match": {"kind": "all"}}], **changes}
        self.apply(AccessChanged("route", "r", generation, value))

    def apply(self, *records: Any) -> None:
        for record in records:
            self.image.apply(record)
        self.routing.entry_applied(records)

    @property
    def running(self) -> list[tuple[str, str, int]]:
        return sorted(self.routing.running)


def test_a_route_runs_on_the_led_partitions_of_its_source() -> None:
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.routing.on_election("other", 0, 3)
    scene.declare(1)
    scene.routing.on_election("s", 1, 4)
    assert scene.running == [("r", "s", 0), ("r", "s", 1)]
    first, _ = scene.routing.running["r", "s", 0]
    assert len(scene.watched) == 2, "the high watermarks of both sources are watched"
    scene.routing.on_resignation("s", 0)
    assert first.closed and scene.running == [("r", "s", 1)] and len(scene.watched) == 1


def test_a_changed_definition_reaches_what_runs_and_a_disabled_one_stops_it() -> None:
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.declare(1)
    running, _ = scene.routing.running["r", "s", 0]
    scene.declare(2, owner="ops")
    assert scene.routing.running["r", "s", 0][0] is running and running._next is not None
    scene.declare(3, enabled=False)
    assert running.closed and not scene.running
    scene.declare(4)
    assert scene.running == [("r", "s", 0)]
    again, _ = scene.routing.running["r", "s", 0]
    scene.declare(5, route_id="another")
    assert again.closed and scene.routing.running["r", "s", 0][0].route.route_id == "another"
    scene.apply(AccessChanged("route", "r", 6, None))
    assert not scene.running


def test_an_invalid_definition_is_not_run() -> None:
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.declare(1, bindings=[{"target": "t", "match": {"kind": "of the future"}}])
    assert not scene.running


def test_a_whole_image_is_compared_with_what_runs() -> None:
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.declare(1)
    scene.image.access["route"] = {}
    scene.routing.image_loaded()
    assert not scene.running


def test_the_buffers_of_all_routes_are_limited(monkeypatch: Any) -> None:
    scene = Scene()
    scene.replica.leads = False
    scene.routing.on_election("s", 0, 3)
    scene.declare(1)
    scene.routing.tick(Now(0, 0))
    assert scene.routing.has_room
    running, port = scene.routing.running["r", "s", 0]
    running.buffered_bytes = routing.BUFFERED_BYTES_TOTAL_MAX
    scene.routing.tick(Now(0, 0))
    assert not scene.routing.has_room and not port.has_room


def test_a_changed_permission_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.declare(1)
    port = scene.routing.running["r", "s", 0][1]
    scene.allowed = {("User:a", Operation.READ, "s")}
    assert port.may_read("User:a") and not port.may_write("User:a", "t") and not port.may_write("User:a", "t")
    scene.allowed = {("User:a", Operation.WRITE, "t")}
    assert port.may_write("User:a", "t") and not port.may_read("User:a")
    lines = [r.getMessage() for r in caplog.records if "permission of route changed" in r.getMessage()]
    assert [line.rpartition("operation=")[2] for line in lines] == [
        "WRITE topic=t allowed=False",
        "WRITE topic=t allowed=True",
        "READ topic=s allowed=False",
    ]


def test_changed_topics_are_announced() -> None:
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.declare(1)
    running, _ = scene.routing.running["r", "s", 0]
    scene.apply(TopicDeleted(UUID(int=7), "t", 2))
    assert running._targets_changed


def test_an_error_of_a_target_is_logged_when_it_changes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    scene = Scene()
    scene.routing.on_election("s", 0, 3)
    scene.declare(1)
    port, target = scene.routing.running["r", "s", 0][1], UUID(int=5)
    responses = [ErrorCode.NOT_ENOUGH_REPLICAS] * 2 + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NONE]
    monkeypatch.setattr(scene.routing, "send", lambda to, batch, query, done: done(responses.pop(0), -1, Now(0, 0)))
    for _ in range(4):
        port.send(target, 1, b"", -1, lambda *response: None)
    lines = [r.getMessage() for r in caplog.records if "routed records" in r.getMessage()]
    assert [line.rpartition("=")[2] for line in lines] == ["NOT_ENOUGH_REPLICAS", "NONE"]
    assert f"group=weir.route.r source=s-0 target={target}-1" in lines[0]
