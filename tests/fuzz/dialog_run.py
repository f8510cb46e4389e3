"""Runs a talk: every step on the broker's listeners, and its cost."""

from __future__ import annotations

import logging
import ssl
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.dialogs import Step, unauthenticated_only
from tests.fuzz.stage import Stage

CPU_SECONDS_MAX = 4.0
"""CPU limit of one talk, including the clients' ends. Most take some milliseconds."""
STRANGERS_CPU_SECONDS_MAX = 1.0
TOO_MUCH_TIME = "too much time"
PEAK_BYTES_MAX = 640 << 20
"""Limit above the memory before the talk: two decompressed batches of the maximum size, and their copies."""
STRANGERS_PEAK_BYTES_MAX = 24 << 20
TURNS_MAX = 400
"""Runs the broker until nothing changes any more."""


@dataclass
class Outcome:
    """The result of a talk. `problems`: the broken rules, each with a name that identifies the same problem."""

    cpu_s: float = 0.0
    peak_bytes: int = 0
    response_bytes: int = 0
    problems: dict[str, str] = field(default_factory=dict)


class ClientConnection:
    """A client's end, with or without TLS."""

    def __init__(self, stage: Stage, protocol: str, context: ssl.SSLContext | None) -> None:
        self.stage = stage
        self.sock, self.connection = stage.connect(protocol)
        self.response_bytes = 0
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        if context is not None:
            self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
            self._shake_hands()

    def _shake_hands(self) -> None:
        assert self._tls is not None
        for _ in range(10):
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            else:
                self.send_bytes(self._out.read())
                self.stage.run_iteration()
                return
            self.send_bytes(self._out.read())
            self.stage.run_iteration()
            self.receive()
        raise AssertionError("the stage's own handshake fails")

    def send(self, data: bytes, damage: tuple[int, int] | None = None) -> None:
        if self._tls is None:
            self.send_bytes(data)
            return
        try:
            self._tls.write(data)
        except ssl.SSLError:
            return
        sealed = bytearray(self._out.read())
        if damage is not None and sealed:
            sealed[damage[0] % len(sealed)] ^= damage[1]
        self.send_bytes(bytes(sealed))

    def send_bytes(self, data: bytes) -> None:
        """Sends the bytes while the broker reads them."""
        view = memoryview(data)
        for _ in range(TURNS_MAX):
            if not view or self.connection.closed:
                return
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                self.stage.run_iteration()
                self.receive()
            except OSError:
                return

    def receive(self) -> bool:
        """True if bytes arrived."""
        got = False
        while True:
            try:
                piece = self.sock.recv(1 << 18)
            except (BlockingIOError, OSError):
                break
            if not piece:
                break
            got = True
            self.response_bytes += len(piece)
            if self._tls is not None:
                self._in.write(piece)
                try:
                    while self._tls.read(1 << 18):
                        pass
                except (ssl.SSLError, ValueError):
                    pass
        return got

    def close(self) -> None:
        self.sock.close()


def run_dialog(stage: Stage, steps: list[Step], context: ssl.SSLContext) -> Outcome:
    outcome = Outcome()
    unauthenticated = unauthenticated_only(steps)
    before, failures = _reset_peak(), stage.broker.dispatch.failures
    stage.faults.seen.clear()
    began = time.process_time()
    lines: list[ClientConnection] = []

    def run_guarded(act: Callable[[], Any]) -> None:
        try:
            act()
        except Exception as e:
            if isinstance(e, AssertionError) and "the stage's own" in str(e):
                raise
            outcome.problems[_name(e)] = traceback.format_exc()

    def has_received() -> bool:
        return bool(sum(x.receive() for x in lines))

    def run_until_quiet() -> None:
        for _ in range(TURNS_MAX):
            stage.run_iteration()
            if not has_received():
                stage.run_iteration(2)
                if not has_received():
                    return

    for step in steps:
        match step:
            case ["open", protocol]:
                run_guarded(
                    lambda: lines.append(
                        ClientConnection(stage, protocol, context if protocol.endswith("SSL") else None)
                    )
                )
            case ["open raw", protocol]:
                run_guarded(lambda: lines.append(ClientConnection(stage, protocol, None)))
            case ["send" | "raw", line, data]:
                # Before its own handshake a connection is not encrypted: `raw` and `send` are the same.
                run_guarded(lambda: lines[line].send(bytes.fromhex(data)))
                run_guarded(stage.run_iteration)
            case ["damaged", line, data, position, xor]:
                run_guarded(lambda: lines[line].send(bytes.fromhex(data), (position, xor)))
                run_guarded(stage.run_iteration)
            case ["time", ms]:
                run_guarded(run_until_quiet)
                # In pieces: a second without progress would be a problem of its own.
                for _ in range(min(40, max(1, ms // 100))):
                    run_guarded(lambda: stage.pass_time(max(10, ms // 40)))
            case ["close", line]:
                run_guarded(run_until_quiet)
                lines[line].close()
    run_guarded(run_until_quiet)
    for _ in range(12):  # a SASL failure is sent 100 ms late
        run_guarded(lambda: stage.pass_time(20))
    run_guarded(run_until_quiet)
    for x in lines:
        x.close()
    run_guarded(run_until_quiet)
    outcome.cpu_s = time.process_time() - began
    outcome.peak_bytes = max(0, _peak() - before)
    outcome.response_bytes = sum(x.response_bytes for x in lines)
    for record in stage.faults.seen:
        text = logging.Formatter().format(record)
        error = record.exc_info[1] if record.exc_info else None
        outcome.problems[_name(error) if error is not None else f"logged: {record.msg[:80]}"] = text
    if stage.broker.dispatch.failures != failures and not outcome.problems:
        outcome.problems["a failure without a log line"] = ""
    if stage.connections:
        outcome.problems["a connection outlives its client"] = f"{stage.connections} left"
        for listener in stage.outside.listeners:
            listener.close()
    if outcome.cpu_s > (STRANGERS_CPU_SECONDS_MAX if unauthenticated else CPU_SECONDS_MAX):
        outcome.problems[TOO_MUCH_TIME] = f"{outcome.cpu_s:.1f} s of CPU, unauthenticated only: {unauthenticated}"
    if outcome.peak_bytes > (STRANGERS_PEAK_BYTES_MAX if unauthenticated else PEAK_BYTES_MAX):
        outcome.problems["too much memory"] = f"{outcome.peak_bytes >> 20} MiB, unauthenticated only: {unauthenticated}"
    return outcome


def _name(error: BaseException) -> str:
    """The same fault has the same name: its kind and the innermost function of the project."""
    ours = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if "/brokerd/" in f.filename or "/controlplane/" in f.filename
    ]
    at = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "nowhere of ours"
    return f"{type(error).__name__} in {at}"


def _reset_peak() -> int:
    """Returns the resident bytes and resets the kernel's peak value."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _peak()


def _peak() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) * 1024
