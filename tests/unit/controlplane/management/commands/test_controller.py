"""The command `controller`: a candidate with its options, stopped by a signal."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.zookeeper import FormerSession, SessionKey
from controlplane.controller import database, watchdog
from controlplane.controller.former_session import SessionFile
from controlplane.management.commands import controller as command
from tests.unit.controlplane.management.commands.local_cluster import run


class Candidate:
    def __init__(self, store: object, name: str, database: Any) -> None:
        self.made.append((store, name, database))
        self.tailer = SimpleNamespace(image="image")
        self.watched: float | None = None
        self.stopped = False

    made: list[Any] = []
    handlers: dict[int, Callable[[], None]] = {}
    last: Candidate | None = None

    def watch(self, seconds: float) -> None:
        self.watched = seconds

    def stop(self) -> None:
        self.stopped = True

    def run(self) -> None:
        Candidate.last = self
        self.handlers[signal.SIGTERM]()


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    settings.WEIR = dataclasses.replace(settings.WEIR, data_dir=tmp_path, brokers=1)
    Candidate.made, Candidate.handlers, Candidate.last = [], {}, None
    fake = SimpleNamespace(SIGTERM=15, SIGINT=2, signal=Candidate.handlers.__setitem__)
    monkeypatch.setattr(command, "signal", fake)
    monkeypatch.setattr(watchdog, "WatchedController", Candidate)
    monkeypatch.setattr(database, "DatabaseThread", lambda **options: SimpleNamespace(image=None, options=options))
    monkeypatch.setattr(command, "zookeeper_store", lambda address, session_ms, remember: (session_ms, remember))


def test_a_candidate_runs_with_its_options_until_a_signal() -> None:
    run("controller", "--id=2", "--session-timeout-ms=18000", "--offsets-partitions=7")
    (((session_ms, _), name, rows),) = Candidate.made
    assert (session_ms, name) == (18000, "controller-2")
    assert rows.options["offsets_partitions"] == 7 and rows.options["share_state_partitions"] == 50
    assert rows.options["brokers_expected"] == 1, (
        "WEIR_BROKERS: internal topics would wait for brokers that do not exist"
    )
    assert rows.image == "image", "the database reads the image that the candidate tails"
    assert Candidate.last is not None and Candidate.last.stopped and Candidate.last.watched == 18


def test_a_short_session_is_watched_for_three_seconds_at_least() -> None:
    run("controller", "--id=1", "--session-timeout-ms=1000")
    assert Candidate.last is not None and Candidate.last.watched == 3
    assert set(Candidate.handlers) == {signal.SIGTERM, signal.SIGINT}


@pytest.mark.parametrize("number", [1, 2])
def test_a_candidate_ends_the_session_of_the_last_process_of_its_number(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    former, own = SessionKey(7, bytes(16)), SessionKey(8, bytes(16))
    file = SessionFile(tmp_path / "controller-1.session")
    file.write(former)
    file.close()
    ended: list[tuple[SessionKey, int]] = []
    done = threading.Event()

    def end(hosts: str, key: SessionKey, timeout_ms: int, protection: object) -> FormerSession:
        ended.append((key, timeout_ms))
        done.set()
        return FormerSession.ENDED

    monkeypatch.setattr(command, "end_session", end)
    run("controller", f"--id={number}", "--session-timeout-ms=18000")
    assert done.wait(10) if number == 1 else not ended
    assert ended == ([(former, 18000)] if number == 1 else [])
    (((_, remember), *_),) = Candidate.made
    remember(own)
    path = tmp_path / f"controller-{number}.session"
    assert json.loads(path.read_text())["zk_session"] == 8, "the next process ends the session of this one"
