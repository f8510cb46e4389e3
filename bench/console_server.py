"""`uvicorn bench.console_server:application`: the console with values in the headers of its responses.

After a request to START it also publishes the live updates of `bench.console_updates`, as a local cluster does, whose monitor is in the web process.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from bench.console_rows import MS_HEADER, OPTIONS, QUERIES_HEADER, START
from bench.console_updates import UpdateSource
from weir.asgi import Receive, Scope, Send
from weir.asgi import application as console

_queries: ContextVar[list[int]] = ContextVar("queries")


def _count(execute: Callable[..., Any], *arguments: Any) -> Any:
    counter = _queries.get(None)
    if counter is not None:
        counter[0] += 1
    return execute(*arguments)


def _count_queries(connection: Any, **kwargs: Any) -> None:
    if _count not in connection.execute_wrappers:  # the same object opens a connection for each request
        connection.execute_wrappers.append(_count)


_source: list[UpdateSource] = []


def _start() -> None:
    if not _source:
        _source.append(UpdateSource(**json.loads(os.environ[OPTIONS])))
        threading.Thread(target=_source[0].run, daemon=True).start()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        from django.db.backends.signals import connection_created

        from console.live_fanout import deliver_locally
        from controlplane.monitoring.hub import hub, through_loop

        connection_created.connect(_count_queries, weak=False)
        hub.deliver_through(through_loop(asyncio.get_running_loop(), deliver_locally))
        await console(scope, receive, send)
    elif scope["type"] == "http" and scope["path"] == START:
        await asyncio.to_thread(_start)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    elif scope["type"] == "http":
        await _measured(scope, receive, send)
    else:
        await console(scope, receive, send)


async def _measured(scope: Scope, receive: Receive, send: Send) -> None:
    began, counter = time.perf_counter(), [0]
    _queries.set(counter)

    async def send_measured(message: Any) -> None:
        if message["type"] == "http.response.start":
            took = f"{(time.perf_counter() - began) * 1000:.2f}".encode()
            headers = [
                *message["headers"],
                (MS_HEADER.encode(), took),
                (QUERIES_HEADER.encode(), str(counter[0]).encode()),
            ]
            message = {**message, "headers": headers}
        await send(message)

    await console(scope, receive, send_measured)
