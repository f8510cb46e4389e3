"""The worker is notified of a move's change when it is committed. Without the queue, changes are only delayed."""

from __future__ import annotations

from typing import Any

import pytest
from kombu.exceptions import OperationalError

from controlplane.services import moves, worker_queue
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


class Queue:
    def __init__(self, main: str = "weir", error: Exception | None = None) -> None:
        self.main, self.error = main, error
        self.sent: list[tuple[str, tuple[int]]] = []

    def send_task(self, name: str, arguments: tuple[int], **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((name, arguments))


def start_move(world: World) -> int:
    world.topic("flights", (1, 2))
    scope = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 3]}]}
    move = moves.plan_move(parse_scope(scope), actor="alice", comment="x")
    return moves.start_move(move.pk, actor="alice").pk


def test_a_move_that_starts_is_sent_to_the_worker_after_the_commit(
    world: World, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    queue = Queue()
    monkeypatch.setattr(worker_queue, "current_app", queue)
    with django_capture_on_commit_callbacks(execute=True):
        move = start_move(world)
        assert queue.sent == []
    assert queue.sent == [("controlplane.advance_move", (move,))]


@pytest.mark.parametrize(
    "queue", [Queue(error=OperationalError("away")), Queue(error=OSError("full")), Queue("default")]
)
def test_a_move_starts_without_a_queue(
    world: World, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any, queue: Queue
) -> None:
    monkeypatch.setattr(worker_queue, "current_app", queue)
    with django_capture_on_commit_callbacks(execute=True):
        move = start_move(world)
    assert queue.sent == []
    assert moves.Move.objects.get(pk=move).state == "running"
