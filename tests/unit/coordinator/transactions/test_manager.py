"""Unused transactional ids are removed when their tombstones are replicated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions import transaction_events as events
from brokerd.coordinator.transactions.manager import TransactionCoordinator
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.consumer.test_records import Log

IDLE_MS_MAX = 1_000_000


class Scene:
    def __init__(self) -> None:
        self.now = Now(1_000, 1_000)
        self.log = Log()
        ports: Any = (self.log, SimpleNamespace(tick=lambda: None))
        self.transactions = TransactionCoordinator(
            *ports, lambda: self.now, id_expiration_ms=IDLE_MS_MAX, timeout_check_ms=1 << 40
        )
        self.transactions.on_election(0, 7, self.now)
        self.advance(0)

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        for _ in range(3):
            self.transactions.tick(self.now)

    def begin(self) -> list[Any]:
        responses: list[Any] = []
        event = events.Init(responses.append, 5_000, 9)
        assert self.transactions.handle("id", event, new_producer_id=7) == 0
        return responses

    @property
    def is_known(self) -> bool:
        return self.transactions.find_existing("id")[0] is not None


def test_a_transactional_id_expires_when_its_tombstone_is_in_the_log() -> None:
    scene = Scene()
    scene.begin()
    scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    scene.advance(IDLE_MS_MAX + 60_000)
    assert scene.is_known, "the log has rejected it"
    scene.log.error, scene.log.later = 0, []
    scene.advance(60_000)
    assert scene.is_known
    scene.log.later.pop()(0)
    assert not scene.is_known


def test_a_transactional_id_used_during_its_expiration_stays() -> None:
    scene = Scene()
    scene.begin()
    scene.log.later = []
    scene.advance(IDLE_MS_MAX + 60_000)
    responses = scene.begin()
    tombstone, record = scene.log.later
    tombstone(0)
    record(0)
    assert scene.is_known and len(responses) == 1
