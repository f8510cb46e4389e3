"""The Celery app: the transport, and the first poll of a worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane import tasks
from weir import celery, transport


def test_celery_uses_the_folder_transport() -> None:
    with celery.app.connection_for_write() as connection:
        assert isinstance(connection.transport, transport.Transport)


def test_a_redis_that_does_not_respond_delays_a_request_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "redis://:secret@127.0.0.1:1/0"
    monkeypatch.setattr(celery, "settings", SimpleNamespace(WEIR=SimpleNamespace(celery_broker_url=url)))
    app = celery.Celery("test")
    celery._configure(app)
    assert app.conf.broker_url == url
    options = app.conf.broker_transport_options
    assert {name: options[name] for name in celery.REDIS_WAITS} == celery.REDIS_WAITS
    with app.connection_for_write() as connection:
        assert set(celery.REDIS_WAITS) <= set(connection.transport.Channel.from_transport_options)


@pytest.mark.parametrize(
    ("read", "polls"),
    [
        ((), ["controlplane.advance_all", "controlplane.advance_spark"]),
        (("weir",), ["controlplane.advance_all"]),
        (("weir-spark",), ["controlplane.advance_spark"]),
    ],
)
def test_the_first_polls_are_those_of_the_queues_that_the_worker_reads(
    read: tuple[str, ...], polls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.delenv("WEIR_BEAT", raising=False)
    monkeypatch.setattr(celery, "EmbeddedService", lambda *a, **k: SimpleNamespace(start=lambda: done.append("beat")))
    monkeypatch.setattr(celery.app, "send_task", lambda name, **k: done.append(name))
    queues = celery.app.amqp.queues
    monkeypatch.setattr(queues, "_consume_from", {name: queues[name] for name in read} or None)
    sender: Any = SimpleNamespace(controller=SimpleNamespace())
    before = celery.app.conf.beat_schedule
    try:
        celery.start_beat(sender)
        assert [p["task"] for p in celery.app.conf.beat_schedule.values()] == polls
    finally:
        celery.app.conf.beat_schedule = before
    assert done == ["beat", *polls]
    assert {tasks.advance_all.name, tasks.advance_spark.name} >= set(polls)


def test_tasks_of_drivers_go_to_the_worker_whose_machine_runs_them() -> None:
    """A driver is a process: a worker on another machine would not find it, and would start a second one."""
    route = celery.app.amqp.router.route
    assert {(q.exchange.name, q.routing_key) for q in celery.app.amqp.queues.values()} == {(n, n) for n in celery.POLLS}
    spark = {tasks.advance_spark.name, tasks.advance_archive.name, tasks.advance_spark_run.name}
    assert {route({}, name)["queue"].name for name in spark} == {celery.SPARK_QUEUE}
    others = {t.name for t in vars(tasks).values() if getattr(t, "name", "").startswith("controlplane.")} - spark
    assert len(others) > 5
    assert {route({}, name)["queue"].name for name in others} == {celery.QUEUE}
