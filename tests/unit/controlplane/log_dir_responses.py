"""A broker with three log directories, for the tests of selectors, services, views and REST."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.log_dirs import LogDirState, ReportedLogDir, ReportedReplica
from controlplane.selectors import log_dirs as selectors
from controlplane.services import log_dirs as services

A = ReportedLogDir(
    "/a",
    LogDirState.HEALTHY,
    9_000_000,
    4_000_000,
    (ReportedReplica("orders", 0, 3_000_000, 0, False), ReportedReplica("orders", 1, 1_000_000, 0, False)),
)
B = ReportedLogDir("/b", LogDirState.HEALTHY, 9_000_000, 5_000_000, (ReportedReplica("logs", 0, 2_000_000, 0, False),))
FAILED = ReportedLogDir("/failed", LogDirState.FAILED, None, None, ())
FUTURE = ReportedReplica("orders", 1, 250_000, 7, True)
MOVING = [A, replace(B, replicas=(*B.replicas, FUTURE)), FAILED]


@dataclass
class Directories:
    """`silent`: the broker does not answer reads. `error`: what it answers to moves. `asked`: the moves that it got."""

    dirs: list[ReportedLogDir] = field(default_factory=lambda: [A, B, FAILED])
    silent: bool = False
    error: Declined | NoResponse | None = None
    asked: list[tuple[str, int, str]] = field(default_factory=list)

    def ask(self, brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        return [
            BrokerResponse(b.broker_id, None, "frozen") if self.silent else BrokerResponse(b.broker_id, self.dirs)
            for b in brokers
        ]

    def alter(self, connection: Any, topic: str, index: int, directory: str) -> None:
        self.asked.append((topic, index, directory))
        if self.error is not None:
            raise self.error


def reporting(monkeypatch: pytest.MonkeyPatch) -> Directories:
    found = Directories()
    monkeypatch.setattr(selectors, "call_brokers", found.ask)
    monkeypatch.setattr(services, "alter_replica_log_dir", found.alter)
    return found
