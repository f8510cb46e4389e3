"""systemd units without systemd: the part of a unit that starts, restarts and stops its process.

`ExecStart`, `EnvironmentFile`, `WorkingDirectory`, `Restart`, `KillSignal`, `TimeoutStopSec` and `WatchdogSec` are used as they are in the file. Does not
apply the user, the limits and the protections of a unit: systemd alone can.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir_common.service_manager import SOCKET_VARIABLE, WATCHDOG_VARIABLE

RESTART_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Unit:
    """`prevented`: exit codes after which there is no restart. `watchdog_seconds`: without a message for so long, the process is ended; 0: it sends none."""

    name: str
    command: tuple[str, ...]
    environment_files: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    state_directory: str
    stop_signal: signal.Signals
    stop_seconds: float
    restart_seconds: float
    watchdog_seconds: float
    clean: frozenset[int]
    prevented: frozenset[int]


def parse(path: Path, instance: str = "") -> Unit:
    """The unit of this file. `instance` replaces %i, of a template."""
    values: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            values.setdefault(name, []).append(value)

    def last_value(name: str, default: str = "") -> str:
        return values.get(name, [default])[-1]

    def codes(name: str) -> frozenset[int]:
        return frozenset(int(c) for c in last_value(name).split())

    words = shlex.split(last_value("ExecStart"))
    replaced = tuple(w.replace("%i", instance).replace("%%", "%") for w in words)
    return Unit(
        name=path.name.replace("@.", f"@{instance}."),
        command=replaced,
        environment_files=tuple(values.get("EnvironmentFile", [])),
        environment=dict(v.split("=", 1) for v in values.get("Environment", [])),
        working_directory=last_value("WorkingDirectory", "/"),
        state_directory=last_value("StateDirectory"),
        stop_signal=signal.Signals[last_value("KillSignal", "SIGTERM")],
        stop_seconds=float(last_value("TimeoutStopSec", "90")),
        restart_seconds=min(float(last_value("RestartSec", "0.1")), RESTART_SECONDS_MAX),
        watchdog_seconds=float(last_value("WatchdogSec", "0")),
        clean=frozenset({0}) | codes("SuccessExitStatus"),
        prevented=codes("RestartPreventExitStatus"),
    )


def read_environment(text: str) -> dict[str, str]:
    """The variables of an EnvironmentFile whose values are in single quotation marks."""
    return {n: shlex.split(v)[0] for n, _, v in (x.partition("=") for x in text.splitlines() if x and x[0] != "#")}


class RunningUnit:
    """Starts the process of a unit again when it ends, until `stop`."""

    def __init__(self, unit: Unit, prefix: Sequence[str], root: Path, log: Path, extra: Mapping[str, str]) -> None:
        self.unit, self._prefix, self._root, self._log, self._extra = unit, prefix, root, log, extra
        self.starts = 0
        self._wanted = False
        self._popen: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.watchdog_ends = 0
        """How often the process was ended because it sent no message."""
        self._notify_path = root / f"notify-{unit.name.removesuffix('.service')}"

    def start(self) -> None:
        assert not self._wanted
        self._wanted = True
        with self._lock:
            self._spawn()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _spawn(self) -> None:
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/nonexistent", **self._extra}
        for name in self.unit.environment_files:
            file = self._root / name.lstrip("-/")
            if file.exists() or not name.startswith("-"):
                environment |= read_environment(file.read_text())
        state = self._root / "var/lib" / self.unit.state_directory
        state.mkdir(parents=True, exist_ok=True)
        if self.unit.watchdog_seconds:
            environment[SOCKET_VARIABLE] = str(self._notify_path)
            environment[WATCHDOG_VARIABLE] = str(int(self.unit.watchdog_seconds * 1_000_000))
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(
                [*self._prefix, self.unit.working_directory, *self.unit.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment | self.unit.environment,
            )
        self.starts += 1

    def _keep(self) -> None:
        with contextlib.closing(self._notifications()) as received:
            while self._wanted:
                popen = self._popen
                assert popen is not None
                code = self._wait(popen, received)
                if code in self.unit.prevented:
                    return
                time.sleep(self.unit.restart_seconds)
                with self._lock:
                    if self._wanted:
                        self._spawn()

    def _notifications(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if self.unit.watchdog_seconds:
            self._notify_path.unlink(missing_ok=True)
            sock.bind(str(self._notify_path))
        return sock

    def _wait(self, popen: subprocess.Popen[bytes], received: socket.socket) -> int:
        """The exit code. Ends the process if it sends no message in the time of the unit, as systemd: SIGABRT, and SIGCONT for a stopped process."""
        if not self.unit.watchdog_seconds:
            return popen.wait()
        last = time.monotonic()
        while (code := popen.poll()) is None:
            if select.select([received], [], [], 0.1)[0]:
                received.recv(4096)
                last = time.monotonic()
            elif self._wanted and time.monotonic() - last > self.unit.watchdog_seconds:
                self.watchdog_ends += 1
                popen.send_signal(signal.SIGABRT)
                popen.send_signal(signal.SIGCONT)
                return popen.wait()
        return code

    def stop(self) -> tuple[int, float]:
        """Exit code and seconds, as `systemctl stop`: the stop signal, and SIGKILL after the time-out of the unit."""
        began = time.monotonic()
        with self._lock:
            self._wanted = False
            popen = self._popen
            assert popen is not None
            popen.send_signal(self.unit.stop_signal)
        try:
            code = popen.wait(self.unit.stop_seconds)
        except subprocess.TimeoutExpired:
            popen.kill()
            code = popen.wait()
        if self._thread is not None:
            self._thread.join(RESTART_SECONDS_MAX + 5)
        return code, time.monotonic() - began

    def crash(self) -> None:
        """kill -9 of the process. It is started again, as by systemd."""
        with self._lock:
            assert self._popen is not None
            self._popen.kill()

    def kill(self) -> None:
        """Ends the process at once, and starts none again."""
        with self._lock:
            self._wanted = False
            if self._popen is not None and self._popen.poll() is None:
                self._popen.kill()
        if self._thread is not None:
            self._thread.join(RESTART_SECONDS_MAX + 5)

    def ended_cleanly(self, code: int) -> bool:
        return code in self.unit.clean or code == -self.unit.stop_signal
