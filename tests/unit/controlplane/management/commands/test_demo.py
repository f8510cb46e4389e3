"""The command `demo`: the replay of a data directory's cluster, stopped by a signal."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.devcluster.layout import BROKERS_DEFAULT
from controlplane.management.commands import demo as command
from tests.unit.controlplane.management.commands.local_cluster import run


def run_replay(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, *arguments: str) -> dict[str, Any]:
    """The arguments of the replay, and whether a signal stopped it."""
    handlers: dict[int, Callable[[], None]] = {}
    seen: dict[str, Any] = {}
    stopping = threading.Event()

    def replay(config: object, speed: int, target: Path, **more: Any) -> Any:
        seen.update(more, speed=speed, folder=target)
        return SimpleNamespace(stopping=stopping, run=lambda: handlers[signal.SIGINT]())

    settings.WEIR = replace(settings.WEIR, data_dir=folder)
    monkeypatch.setattr(command, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=handlers.__setitem__))
    monkeypatch.setattr(command, "FlightsReplay", replay)
    run("demo", *arguments)
    return seen | {"stopped": stopping.is_set()}


def test_the_replay_repeats_until_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    (tmp_path / "local-cluster.json").write_text(json.dumps({"brokers": 5}))
    seen = run_replay(tmp_path, monkeypatch, settings)
    assert seen == {"speed": 2000, "folder": tmp_path / "demo", "brokers": 5, "loop": True, "stopped": True}
    assert (tmp_path / "demo").is_dir()


def test_once_and_a_speed_of_at_least_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    seen = run_replay(tmp_path, monkeypatch, settings, "--once", "--speed=0")
    assert (seen["loop"], seen["speed"], seen["brokers"]) == (False, 1, BROKERS_DEFAULT)
