"""Fake requests without a connection and background work without threads, for unit tests of single APIs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.fair_scheduler import FairScheduler, Work
from brokerd.server.background_work import BackgroundWork


class FakeRequest:
    """The parts of `dispatch.Request` that an API uses."""

    abandoned = from_privileged_listener = authorization_pending = False
    principal = "User:ANONYMOUS"

    def __init__(
        self,
        body: Any,
        version: int,
        reply: Callable[[Any], None],
        *,
        owner: str = "10.0.0.1",
        client_host: str = "10.0.0.1",
    ) -> None:
        self.body, self._reply, self.owner, self.client_host = body, reply, owner, client_host
        self.header = SimpleNamespace(api_version=version)
        self.blocked = self.closed = self.broker = False
        self.gone: Callable[[], None] | None = None
        self.traffic = ClientTraffic(0)

    def reply(self, body: Any) -> None:
        self.gone = None
        self._reply(body)

    def block(self, *, needs_client: bool, gone: Callable[[], None] | None = None) -> None:
        self.blocked, self.gone = True, gone

    def from_broker(self) -> None:
        self.broker = True

    def attempt(self, work: Callable[[], Any]) -> Any:
        return work()

    def close(self) -> None:
        self.closed = True


class LaterJobs:
    """Jobs that run and complete when `end` is called."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.jobs.append((run, done))

    def end(self) -> None:
        run, done = self.jobs.pop(0)
        error: BaseException | None = None
        try:
            run()
        except Exception as e:
            error = e
        done(error)


class JobsNow(LaterJobs):
    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        super().submit(run, done)
        self.end()


class TurnsNow(FairScheduler):
    """Runs each task when it is added. The clock does not advance."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)

    def add(self, owner: Hashable, work: Work) -> None:
        while work.serve(1.0):
            pass


def immediate_background_work() -> BackgroundWork:
    """Completes all work within the call."""
    return BackgroundWork(TurnsNow(), JobsNow())
