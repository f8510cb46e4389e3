"""The metrics endpoint over a real socket."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from brokerd.runtime import metrics_server as module
from brokerd.runtime.exposition import CONTENT_TYPE, MetricFamily, MetricType
from brokerd.runtime.metrics_server import MetricsServer
from brokerd.runtime.readiness import Readiness, ReadinessState

READ_S = 30


class Scene:
    def __init__(self) -> None:
        self.reads = 0
        self.state = Readiness(ReadinessState.STARTING)
        self.asked = 0
        self.server = MetricsServer("127.0.0.1", 0, self.families, self.readiness)
        self.server.start()

    def families(self) -> Iterator[MetricFamily]:
        self.reads += 1
        if self.reads == 3:
            raise RuntimeError("no metrics")
        yield MetricFamily("reads", MetricType.GAUGE, "Reads.", [("", (), float(self.reads))])

    def readiness(self) -> Readiness:
        self.asked += 1
        return self.state

    def get(self, path: str) -> tuple[str, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}{path}", timeout=READ_S) as response:
            return response.headers["Content-Type"], response.read().decode()


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    yield found
    found.server.close()


def test_the_text_is_used_again_for_a_while(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 3_600.0)
    scene.server._text_s = -3_600.0
    first = scene.get("/metrics")
    assert first == (CONTENT_TYPE, "# HELP reads Reads.\n# TYPE reads gauge\nreads 1.0\n")
    assert scene.get("/metrics?x=1") == first and scene.reads == 1


def test_other_paths_are_not_found_and_other_methods_rejected(scene: Scene) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        scene.get("/")
    post = urllib.request.Request(f"http://127.0.0.1:{scene.server.port}/metrics", data=b"x")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(post, timeout=READ_S)
    assert scene.reads == 0


def test_a_failure_ends_one_request_only(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    scene.get("/metrics")
    scene.get("/metrics")
    with pytest.raises(OSError, match=r"closed|reset|Remote end"):
        scene.get("/metrics")
    assert "reads 4.0" in scene.get("/metrics")[1]


def test_an_address_that_is_taken_cannot_be_bound(scene: Scene) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", scene.server.port, scene.families, scene.readiness)


def test_liveness_asks_nothing(scene: Scene) -> None:
    assert scene.get("/healthz") == ("application/json", '{"status": "live"}\n')
    assert (scene.reads, scene.asked) == (0, 0)


def test_readiness_is_a_status_with_a_reason(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    for state in (Readiness(ReadinessState.STARTING), Readiness(ReadinessState.OUT_OF_SYNC, 7)):
        scene.state = state
        with pytest.raises(urllib.error.HTTPError) as rejected:
            scene.get("/readyz")
        body = {"status": state.state.value, "partitions_out_of_sync": state.partitions_out_of_sync}
        assert rejected.value.code == 503 and json.loads(rejected.value.read()) == body
    scene.state = Readiness(ReadinessState.READY)
    assert scene.get("/readyz")[1] == '{"status": "ready", "partitions_out_of_sync": 0}\n'


def test_a_state_is_used_again_for_a_while(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 3_600.0)
    scene.server._state_s = -3_600.0
    scene.state = Readiness(ReadinessState.READY)
    assert scene.get("/readyz") == scene.get("/readyz") and scene.asked == 1
