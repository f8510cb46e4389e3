"""Units are read as systemd reads them: instances, files, stop and restart."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.cluster.local import ROOT, wait_for
from tests.deploy.units import RunningUnit, parse, read_environment

UNITS = ROOT / "deploy" / "systemd"


def test_an_instance_and_the_files_of_a_unit_are_read() -> None:
    found = parse(UNITS / "weir-controller@.service", "3")
    assert found.name == "weir-controller@3.service" and "3" in found.command and "%i" not in found.command
    assert found.environment_files == ("/etc/weir/weir.env",) and found.working_directory == "/var/lib/weir/control"
    broker = parse(UNITS / "weir-broker.service")
    assert broker.prevented == {78} and broker.stop_signal is signal.SIGTERM and broker.stop_seconds == 120
    assert parse(UNITS / "weir-zookeeper.service").clean == {0, 143}
    assert any(word == "worker@%h" for word in parse(UNITS / "weir-worker.service").command)


def test_an_environment_file_is_read() -> None:
    assert read_environment("# a\nA='x y'\nB='p$q#r'\n") == {"A": "x y", "B": "p$q#r"}


SCRIPT = """
import os, signal, sys, time
from weir_common.service_manager import notify_watchdog
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("started", flush=True)
if sys.argv[1] == "{ends}":
    sys.exit(int(sys.argv[2]))
while True:
    notify_watchdog()
    time.sleep(0.1)
"""


def unit(tmp_path: Path, *words: str, more: str = "") -> RunningUnit:
    (tmp_path / "script.py").write_text(SCRIPT.replace("{ends}", "ends"))
    file = tmp_path / "x.service"
    command = " ".join([sys.executable, str(tmp_path / "script.py"), *words])
    file.write_text(f"[Service]\nExecStart={command}\nRestartSec=0.01\nStateDirectory=weir/x\n{more}")
    prefix = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh"]
    return RunningUnit(parse(file), prefix, tmp_path, tmp_path / "log", {"PYTHONPATH": str(ROOT)})


def lines(tmp_path: Path) -> int:
    return (tmp_path / "log").read_text().count("started") if (tmp_path / "log").exists() else 0


def test_a_process_that_ends_is_started_again_until_it_is_stopped(tmp_path: Path) -> None:
    running = unit(tmp_path, "ends", "1")
    running.start()
    wait_for(lambda: lines(tmp_path) >= 3, "two restarts")
    running.stop()
    assert running._thread is not None and not running._thread.is_alive()
    assert running.starts >= lines(tmp_path) >= 3


@pytest.mark.parametrize(("words", "more"), [(("ends", "78"), "RestartPreventExitStatus=78\n")])
def test_an_exit_code_may_prevent_a_restart(words: tuple[str, ...], more: str, tmp_path: Path) -> None:
    running = unit(tmp_path, *words, more=more)
    running.start()
    assert running._thread is not None
    running._thread.join(60)
    assert running.starts == 1 and not running._thread.is_alive()
    running.stop()


def test_a_stop_is_the_signal_of_the_unit(tmp_path: Path) -> None:
    running = unit(tmp_path, "stays")
    running.start()
    wait_for(lambda: lines(tmp_path) == 1, "the process")
    code, seconds = running.stop()
    assert running.ended_cleanly(code) and seconds < running.unit.stop_seconds and running.starts == 1


def test_a_process_that_sends_no_message_is_ended_and_started_again(tmp_path: Path) -> None:
    running = unit(tmp_path, "stays", more="WatchdogSec=2\n")
    running.start()
    wait_for(lambda: lines(tmp_path) == 1, "the process")
    assert running._popen is not None
    running._popen.send_signal(signal.SIGSTOP)
    wait_for(lambda: lines(tmp_path) >= 2, "the next process")
    assert running.watchdog_ends >= 1
    running.stop()
