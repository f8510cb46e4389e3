"""The command `brokerd`: errors of its settings end the process with a message and status 78."""

from __future__ import annotations

import logging
import socket
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.net.rejections import Rejections
from brokerd.net.request_metrics import RequestMetrics
from brokerd.runtime import process as command
from brokerd.storage.disk import DiskFailed
from tests.cluster.local import free_port

SETTINGS = "broker.id=1\nlog.dirs={folder}\nzookeeper.connect=127.0.0.1:1\n"


def run_main(monkeypatch: pytest.MonkeyPatch, file: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["brokerd", "--config", str(file)])
    # A test before may have configured logging for a captured stream that is closed now. The command configures the root logger of its process.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("brokerd"), "handlers", [])
    return command.main()


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "broker.properties"
    file.write_text(SETTINGS.format(folder=tmp_path / "data"))
    return file


@pytest.mark.parametrize(
    ("line", "message"), [("broker.id=x", "broker.id"), ("zookeeper.set.acl=true", "zookeeper"), ("listeners=A", "A")]
)
def test_an_invalid_setting_is_named(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    settings.write_text(settings.read_text() + line + "\n")
    assert run_main(monkeypatch, settings) == 78
    said = capsys.readouterr().err
    assert "brokerd: " in said and message in said and "Traceback" not in said


def test_a_missing_file_or_a_failed_disk_prevents_the_start(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, settings.with_name("none")) == 78

    def raise_disk_failed(*_: Any) -> None:
        raise DiskFailed("EIO")

    monkeypatch.setattr(command, "BrokerServer", raise_disk_failed)
    assert run_main(monkeypatch, settings) == 78
    assert "brokerd: cannot start: EIO" in capsys.readouterr().err


def test_the_exit_status_is_that_of_the_broker_and_sigterm_stops_it(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: dict[int, Any] = {}
    calls: list[str] = []
    loop = SimpleNamespace(call_later=lambda ms, callback: callback(None))

    class Broker:
        exit_status = 3

        def __init__(self, config: Any, store: Any) -> None:
            self.loop = loop

        def run(self) -> None:
            handlers[command.signal.SIGTERM](command.signal.SIGTERM, None)

        def stop(self) -> None:
            calls.append("stop")

    monkeypatch.setattr(command, "BrokerServer", Broker)
    monkeypatch.setattr(command.signal, "signal", handlers.__setitem__)
    assert run_main(monkeypatch, settings) == 3 and calls == ["stop"]


def test_the_metrics_endpoint_is_served_while_the_broker_runs(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    settings.write_text(settings.read_text() + f"weir.metrics.listener=127.0.0.1:{port}\n")
    found: list[str] = []

    class Broker:
        exit_status = 0

        def __init__(self, config: Any, store: Any) -> None:
            self.replica_manager = SimpleNamespace(hosted={})
            self.dispatch = SimpleNamespace(metrics=RequestMetrics(), rejections=Rejections(lambda: 0))
            self.throttles = SimpleNamespace(paused_ms=2_000)

        def run(self) -> None:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
                found.append(response.read().decode())

    monkeypatch.setattr(command, "BrokerServer", Broker)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    assert run_main(monkeypatch, settings) == 0
    assert 'weir_broker_info{broker="1"} 1.0' in found[0]
    assert "kafka_server_replicamanager_partitioncount 0.0" in found[0]
    assert "weir_catch_up_paused_seconds_total 2.0" in found[0]


def test_a_taken_address_of_the_metrics_endpoint_prevents_the_start(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "BrokerServer", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.write_text(settings.read_text() + f"weir.metrics.listener=127.0.0.1:{taken.getsockname()[1]}\n")
        assert run_main(monkeypatch, settings) == 78
    assert "cannot start: weir.metrics.listener=127.0.0.1:" in capsys.readouterr().err
