"""The Celery app. Law: the database row is the job queue, so no result is kept and a lost task costs seconds, never work.

Started as `celery -A controlplane.site.celery worker -P threads -c 2`: beat is a thread of that worker, because the process that `-B` forks
outlives a killed worker and goes on alone (WEIR_BEAT=off where it runs elsewhere). The transport is a folder of the house by default (no
further server), Redis or Valkey through CELERY_BROKER_URL. Must not come in: what tasks do (`controlplane.tasks`).
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.beat import EmbeddedService
from celery.signals import worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.site.settings")
# Django's checks import every page and door: two fifths of a worker's start. `manage.py` makes them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from django.conf import settings

from controlplane.site import transport

SWEEP_SECONDS = 1.0
"""Seconds between looks at rows that want a step. One look is two indexed queries when there is nothing to do."""

POLL_SECONDS = 0.2
"""Seconds between looks into the folder, in vain; kombu's own is 1.0. A move's look is two tasks one after the other: each would wait for its turn."""


def _configure(app: Celery) -> None:
    url = os.environ.get("CELERY_BROKER_URL")
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
        task_default_queue="weir",
        # One interval needs no memory of when it last fired, and a file of it is one more thing a kill -9 can spoil.
        beat_scheduler="celery.beat:Scheduler",
        beat_schedule={
            "advance": {
                "task": "controlplane.advance_all",
                "schedule": SWEEP_SECONDS,
                # A worker that was away must not find a pile of identical looks.
                "options": {"expires": 5},
            },
        },
    )
    if url is None:
        queue = settings.DATA_DIR / "celery" / "queue"
        control = settings.DATA_DIR / "celery" / "control"
        for folder in (queue, control):
            folder.mkdir(parents=True, exist_ok=True)
        app.conf.broker_transport_options = {
            "data_folder_in": str(queue),
            "data_folder_out": str(queue),
            "control_folder": str(control),
            "polling_interval": POLL_SECONDS,
        }
    else:
        # Redis gives a lost worker's task back only after these; rows are swept anyway, so short is right.
        app.conf.broker_transport_options = {"visibility_timeout": 60}


app = Celery("weir")
_configure(app)
app.autodiscover_tasks(["controlplane"])


@worker_ready.connect
def start_beat(sender: Any, **kwargs: Any) -> None:
    if os.environ.get("WEIR_BEAT") != "off" and getattr(sender.controller, "beat", None) is None:
        beat: Any = EmbeddedService(app, thread=True, scheduler_cls=app.conf.beat_scheduler)  # else it keeps a file
        beat.start()
        # The beat's first look comes a second from now: whoever waits for a dead worker's successor has waited long enough.
        app.send_task("controlplane.advance_all", expires=5)
