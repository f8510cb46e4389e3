"""Celery tasks as files in a directory: kombu's filesystem transport with atomic messages.

Invariants: a consumer never sees a partial message, even if the producer dies. An unreadable message (after a power cut) is deleted and
logged, because the row is the queue. kombu's transport creates a message's file before it writes the content: a concurrent reader got an
empty message, which ended the worker ("Unrecoverable error: JSONDecodeError"). A file left by a kill -9 did the same at the next start.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from pathlib import Path
from queue import Empty

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

log = logging.getLogger(__name__)

URL = "folder://"
TRANSPORT_ALIASES["folder"] = f"{__name__}:Transport"


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: dict[str, object], **kwargs: object) -> None:  # type: ignore[override]  # as the stubs of what it replaces
        folder = Path(self.data_folder_out)
        name = f"{time.monotonic_ns() // 1_000_000}_{uuid.uuid4()}"  # names sort by time
        unfinished = folder / f"{name}.unfinished"
        unfinished.write_text(dumps(payload))
        os.replace(unfinished, folder / f"{name}.{queue}.msg")

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, object]:
        for name in sorted(os.listdir(self.data_folder_in)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            path = Path(self.data_folder_in) / name
            try:
                text = path.read_text()
                path.unlink()  # the worker that deletes the file owns the message
            except FileNotFoundError:
                continue
            try:
                message: dict[str, object] = loads(text)
                return message
            except ValueError as e:
                log.warning("malformed task deleted, the next poll repeats it: characters=%d error=%s", len(text), e)
        raise Empty

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        try:
            super()._queue_bind(exchange, routing_key, pattern, queue)
        except ValueError:
            # The file is incomplete, because its writer died. Every worker binds at its start, so it can be deleted.
            (self.control_folder / f"{exchange}.exchange").unlink(missing_ok=True)
            super()._queue_bind(exchange, routing_key, pattern, queue)


class Transport(filesystem.Transport):
    Channel = Channel
