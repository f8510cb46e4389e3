"""Tasks as files of a folder: kombu's filesystem transport, in which a message is there whole or not at all.

Laws: nobody ever sees half a message, whoever puts it and dies in between; what cannot be read (a power cut) is thrown away and said, since the row
is the queue. kombu's own opens a message under its name and writes it afterwards: a reader in between took an empty one, which ended the worker
("Unrecoverable error: JSONDecodeError"), and so did one left by a kill -9 at the worker's next start. Called by Celery (`celery.py`). Must not come
in: what tasks do.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

log = logging.getLogger(__name__)

URL = "folder://"
TRANSPORT_ALIASES["folder"] = f"{__name__}:Transport"


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: dict[str, Any], **kwargs: Any) -> None:  # type: ignore[override]  # as the stubs of what it replaces
        folder = Path(self.data_folder_out)
        name = f"{time.monotonic_ns() // 1_000_000}_{uuid.uuid4()}"  # names sort as they were put
        unfinished = folder / f"{name}.unfinished"
        unfinished.write_text(dumps(payload))
        os.replace(unfinished, folder / f"{name}.{queue}.msg")

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        for name in sorted(os.listdir(self.data_folder_in)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            path = Path(self.data_folder_in) / name
            try:
                text = path.read_text()
                path.unlink()  # whoever removes it has it
            except FileNotFoundError:
                continue
            try:
                message: dict[str, Any] = loads(text)
                return message
            except ValueError as e:
                log.warning("a task of %d characters could not be read and is left to the next look: %s", len(text), e)
        raise Empty

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        try:
            super()._queue_bind(exchange, routing_key, pattern, queue)
        except ValueError:
            # Torn by a death while it was first written. Every worker binds at its start, so nothing is lost with it.
            (self.control_folder / f"{exchange}.exchange").unlink(missing_ok=True)
            super()._queue_bind(exchange, routing_key, pattern, queue)


class Transport(filesystem.Transport):
    Channel = Channel
