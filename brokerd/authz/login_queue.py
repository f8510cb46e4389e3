"""The queue of password checks. A check takes some milliseconds of CPU and runs on one of a few separate threads.

Invariants: a check that has to wait is queued, never answered as a wrong password. Addresses are served in rotation, so many checks from one address delay only
that address. The queue is bounded: when it is full, the newest check of the address with the most checks is dropped, and its connection is closed without a
response, which clients retry. Does not contain sockets or passwords.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from brokerd.storage.jobs import Runner

WAITING_MAX = 4096
"""Maximum number of checks in one queue, each with a message of at most 4 KiB: 16 MiB. This is more than the unauthenticated connections of one listener
(`UNAUTHENTICATED_MAX`), so that there is space for connections that re-authenticate."""


@dataclass(slots=True)
class LoginCheck:
    """One password check. `run` compares the password on another thread. `done(error)` then runs on the event loop. `gone` returns whether the
    connection no longer waits for the result. `drop` is called if the full queue discards the check."""

    address: str
    run: Callable[[], object]
    done: Callable[[BaseException | None], None]
    gone: Callable[[], bool]
    drop: Callable[[], None]


class PasswordChecks:
    def __init__(self, runner: Runner, threads: int, waiting_max: int = WAITING_MAX) -> None:
        self._runner, self._threads, self._waiting_max = runner, threads, waiting_max
        self._waiting: OrderedDict[str, deque[LoginCheck]] = OrderedDict()
        """Checks by address. The first address is next."""
        self.waiting = self.running = 0

    def add(self, check: LoginCheck) -> None:
        self._waiting.setdefault(check.address, deque()).append(check)
        self.waiting += 1
        if self.waiting > self._waiting_max:
            self._drop_one()
        self._start()

    def _drop_one(self) -> None:
        address = max(self._waiting, key=lambda a: len(self._waiting[a]))
        dropped = self._waiting[address].pop()
        if not self._waiting[address]:
            del self._waiting[address]
        self.waiting -= 1
        dropped.drop()

    def _take_next(self) -> LoginCheck | None:
        while self._waiting:
            address, queue = self._waiting.popitem(last=False)
            check = queue.popleft()
            self.waiting -= 1
            if queue:
                self._waiting[address] = queue  # the address goes to the end of the rotation
            if not check.gone():
                return check
        return None

    def _start(self) -> None:
        while self.running < self._threads and (check := self._take_next()) is not None:
            self.running += 1
            self._runner.submit(check.run, lambda error, check=check: self._on_checked(check, error))  # type: ignore[misc]

    def _on_checked(self, check: LoginCheck, error: BaseException | None) -> None:
        self.running -= 1
        self._start()
        check.done(error)
