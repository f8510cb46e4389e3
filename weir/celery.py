"""The Celery app. The database rows are the job queue: no result is stored, and a lost task costs seconds, never work.

Started as `celery -A weir.celery worker -P threads -c 2`. Beat is a thread of that worker, because the process that `-B` forks
outlives a killed worker (WEIR_BEAT=off if beat runs elsewhere). A worker reads all queues, or those of its option `-Q`: a Spark driver is a process of
the worker's machine, so one worker of a cluster reads SPARK_QUEUE at a time (`weir.spark_lease`). Beat polls only for the queues that its worker reads, so that no queue without a
reader grows. The default transport is a directory in the data directory, without a further server; CELERY_BROKER_URL selects Redis or Valkey. Does not contain: the tasks (`controlplane.tasks`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.beat import EmbeddedService
from celery.signals import celeryd_after_setup, task_postrun, worker_init, worker_ready
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
# Skip Django's system checks, because they import every view (two fifths of a worker's start time). `manage.py` runs them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from django.conf import settings

from weir import transport
from weir.spark_lease import SparkLease
from weir.worker_watchdog import WorkerWatchdog

if TYPE_CHECKING:
    pass

SWEEP_SECONDS = 1.0
"""Seconds between polls for rows that need a step. A poll without work is two indexed queries."""

POLL_SECONDS = 0.2
"""Seconds between polls of the directory without a message; kombu's default is 1.0. A move that an operator starts waits for one poll."""

QUEUE, SPARK_QUEUE = "weir", "weir-spark"
POLLS = {QUEUE: "controlplane.advance_all", SPARK_QUEUE: "controlplane.advance_spark"}
"""The task of each queue that polls the rows."""
SPARK_TASKS = ("controlplane.advance_spark", "controlplane.advance_archive", "controlplane.advance_spark_run")
"""Tasks that start or watch a driver, which is a process of the worker's machine."""
POLL_EXPIRES_S = 5
"""A restarted worker must not find many identical tasks."""

REDIS_WAITS = {"socket_connect_timeout": 3.0, "socket_timeout": 10.0, "socket_keepalive": True}
"""Seconds. A change wakes the worker inside of its request: a Redis that does not respond must not delay it for minutes."""


def _schedule(queues: Iterable[str]) -> dict[str, Any]:
    """Beat's schedule of a worker that reads these queues."""
    return {
        task.rpartition(".")[2]: {"task": task, "schedule": SWEEP_SECONDS, "options": {"expires": POLL_EXPIRES_S}}
        for queue, task in POLLS.items()
        if queue in queues
    }


def _configure(app: Celery) -> None:
    url = settings.WEIR.celery_broker_url
    app.conf.update(
        broker_url=url or transport.URL,
        result_backend=None,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        timezone="UTC",
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        task_default_queue=QUEUE,
        # One exchange per queue. By default all queues share one exchange, and each message would be delivered to every queue.
        task_queues=[Queue(name, Exchange(name), routing_key=name) for name in POLLS],
        task_routes={task: {"queue": SPARK_QUEUE} for task in SPARK_TASKS},
        # One fixed interval needs no stored schedule. A kill -9 could corrupt the schedule file of the default scheduler.
        beat_scheduler="celery.beat:Scheduler",
        beat_schedule=_schedule(POLLS),
    )
    if not url:
        queue = settings.WEIR.data_dir / "celery" / "queue"
        control = settings.WEIR.data_dir / "celery" / "control"
        for folder in (queue, control):
            folder.mkdir(parents=True, exist_ok=True)
        app.conf.broker_transport_options = {
            "data_folder_in": str(queue),
            "data_folder_out": str(queue),
            "control_folder": str(control),
            "polling_interval": POLL_SECONDS,
        }
    else:
        # Redis redelivers a lost worker's task after this time. Rows are polled anyway, so it can be short.
        app.conf.broker_transport_options = {"visibility_timeout": 60, **REDIS_WAITS}


app = Celery("weir")
_configure(app)
app.autodiscover_tasks(["controlplane"])
watchdog = WorkerWatchdog(app)


@worker_init.connect
def start_watchdog(**kwargs: object) -> None:
    watchdog.start()


@task_postrun.connect
def task_completed(**kwargs: object) -> None:
    watchdog.on_task_completed()


@celeryd_after_setup.connect
def wait_for_lease(**kwargs: object) -> None:
    """A worker that reads only the queue of Spark jobs may have others of its kind on other machines."""
    if set(app.amqp.queues.consume_from) == {SPARK_QUEUE}:
        from controlplane.clients.spark import kill_drivers
        from controlplane.db.process_lock import LockName, ProcessLock

        SparkLease(ProcessLock(LockName.SPARK_DRIVERS), kill_drivers).wait(watchdog.on_task_completed)


@worker_ready.connect
def start_beat(sender: Any, **kwargs: object) -> None:
    if settings.WEIR.beat and getattr(sender.controller, "beat", None) is None:
        polls = _schedule(app.amqp.queues.consume_from)
        app.conf.beat_schedule = polls
        beat: Any = EmbeddedService(
            app, thread=True, scheduler_cls=app.conf.beat_scheduler
        )  # the configured scheduler, because Celery's default scheduler writes a file
        beat.start()
        # Beat sends its first tasks after a second. A new worker after a crash should start immediately.
        for poll in polls.values():
            app.send_task(poll["task"], expires=POLL_EXPIRES_S)
