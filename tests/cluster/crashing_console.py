"""A console process that sends dead letters through the REST API and is killed with SIGKILL at one step:
`WEIR_DATA_DIR=... python -m tests.cluster.crashing_console STEP TOKEN TOPIC PARTITION OFFSET...` prints the response if it is not killed.

The step `none` kills nothing. An open batch counts as abandoned at once, and not after BUSY_SECONDS.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import django


class Step(StrEnum):
    """The last thing that the process does."""

    NONE = "none"
    AUDIT_ROW = "audit_row"
    BATCH_ROW = "batch_row"
    BEGUN = "begun"
    RECORDS = "records"
    MARKER = "marker"
    COMMITTED = "committed"
    RESULT_ROW = "result_row"
    OUTCOME = "outcome"


def ends_after(function: Callable[..., Any]) -> Callable[..., Any]:
    def run_and_kill(*args: Any, **more: Any) -> Any:
        function(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    return run_and_kill


def arm(step: Step) -> None:
    from controlplane.clients import transactional_producer
    from controlplane.services import dead_letter_batches, dead_letters

    dead_letter_batches.BUSY_SECONDS = 0
    methods = {
        Step.BEGUN: "begin_transaction",
        Step.MARKER: "send_offsets_to_transaction",
        Step.COMMITTED: "commit_transaction",
    }
    if step in methods:

        class Producer(transactional_producer.Producer):  # type: ignore[misc]
            pass

        setattr(Producer, methods[step], ends_after(getattr(transactional_producer.Producer, methods[step])))
        transactional_producer.Producer = Producer  # type: ignore[misc]
    elif step is Step.BATCH_ROW:
        transactional_producer.send_once = lambda *args: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    elif step is Step.RECORDS:
        transactional_producer._write = ends_after(transactional_producer._write)
    elif step is Step.RESULT_ROW:
        dead_letter_batches._finish = ends_after(dead_letter_batches._finish)
    elif step is not Step.NONE:
        names = {Step.AUDIT_ROW: "record", Step.OUTCOME: "finish_changes"}
        setattr(dead_letters, names[step], ends_after(getattr(dead_letters, names[step])))


def main(step: str, token: str, topic: str, partition: str, *offsets: str) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    django.setup()
    from django.test import Client

    arm(Step(step))
    places = [{"partition": int(partition), "offset": int(offset)} for offset in offsets]
    response = Client().post(
        f"/api/v1/topics/{topic}/dead-letters/send",
        {"places": places, "target": "topic", "comment": "test"},
        content_type="application/json",
        headers={"authorization": f"Token {token}", "host": "127.0.0.1"},
    )
    print(json.dumps({"status": response.status_code, "body": json.loads(response.content)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
