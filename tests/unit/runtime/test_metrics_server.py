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
def metrics_server_scene() -> Iterator[Scene]:
    found = Scene()
    yield found
    found.server.close()


def test_the_text_is_used_again_for_a_while(metrics_server_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 3_600.0)
    metrics_server_scene.server._text_s = -3_600.0
    first = metrics_server_scene.get("/metrics")
    assert first == (CONTENT_TYPE, "# HELP reads Reads.\n# TYPE reads gauge\nreads 1.0\n")
    assert metrics_server_scene.get("/metrics?x=1") == first and metrics_server_scene.reads == 1


def test_other_paths_are_not_found_and_other_methods_rejected(metrics_server_scene: Scene) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        metrics_server_scene.get("/")
    post = urllib.request.Request(f"http://127.0.0.1:{metrics_server_scene.server.port}/metrics", data=b"x")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(post, timeout=READ_S)
    assert metrics_server_scene.reads == 0


def test_a_failure_ends_one_request_only(metrics_server_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    metrics_server_scene.get("/metrics")
    metrics_server_scene.get("/metrics")
    with pytest.raises(OSError, match=r"closed|reset|Remote end"):
        metrics_server_scene.get("/metrics")
    assert "reads 4.0" in metrics_server_scene.get("/metrics")[1]


def test_an_address_that_is_taken_cannot_be_bound(metrics_server_scene: Scene) -> None:
    with pytest.raises(OSError, match="in use"):
        MetricsServer(
            "127.0.0.1", metrics_server_scene.server.port, metrics_server_scene.families, metrics_server_scene.readiness
        )


def test_liveness_asks_nothing(metrics_server_scene: Scene) -> None:
    assert metrics_server_scene.get("/healthz") == ("application/json", '{"status": "live"}\n')
    assert (metrics_server_scene.reads, metrics_server_scene.asked) == (0, 0)


def test_readiness_is_a_status_with_a_reason(metrics_server_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    for state in (Readiness(ReadinessState.STARTING), Readiness(ReadinessState.OUT_OF_SYNC, 7)):
        metrics_server_scene.state = state
        with pytest.raises(urllib.error.HTTPError) as rejected:
            metrics_server_scene.get("/readyz")
        body = {"status": state.state.value, "partitions_out_of_sync": state.partitions_out_of_sync}
        assert rejected.value.code == 503 and json.loads(rejected.value.read()) == body
    metrics_server_scene.state = Readiness(ReadinessState.READY)
    assert metrics_server_scene.get("/readyz")[1] == '{"status": "ready", "partitions_out_of_sync": 0}\n'


def test_a_state_is_used_again_for_a_while(metrics_server_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 3_600.0)
    metrics_server_scene.server._state_s = -3_600.0
    metrics_server_scene.state = Readiness(ReadinessState.READY)
    assert (
        metrics_server_scene.get("/readyz") == metrics_server_scene.get("/readyz") and metrics_server_scene.asked == 1
    )
