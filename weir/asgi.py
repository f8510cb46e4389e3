"""The ASGI application: pages, API, sockets, health checks, and the start and stop of the cluster monitor. Composition only.

`ProtocolTypeRouter` has no lifespan, so it is wrapped. Served by `uvicorn weir.asgi:application`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
pages = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.conf import settings  # noqa: E402

from console.live_fanout import deliver_locally, receive_for_pages  # noqa: E402
from console.sockets import urlpatterns  # noqa: E402
from controlplane.selectors.shared_rows import set_sharing  # noqa: E402
from weir.allocator import limit_arenas  # noqa: E402
from weir.celery import app as celery_app  # noqa: E402
from weir.health import HealthChecks  # noqa: E402
from weir.request_priority import PagesFirst  # noqa: E402

if TYPE_CHECKING:
    from controlplane.monitoring.monitor import ClusterMonitor

celery_app.set_default()  # services wake the worker through it
limit_arenas()

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


SWITCH_SECONDS = 0.0005
"""Interval in which threads take turns at the interpreter. The event loop gives up its turn at each write to a socket. With Python's 5 ms, an update for
100 browsers may wait half a second for a thread that renders a page."""
sys.setswitchinterval(SWITCH_SECONDS)

router = ProtocolTypeRouter(
    {
        "http": PagesFirst(pages),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(urlpatterns))),
    }
)

health_checks = HealthChecks()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] != "http" or not await health_checks.respond(scope["path"], send):
        await router(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    monitor: ClusterMonitor | None = None
    receiver: asyncio.Task[None] | None = None
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            set_sharing(True)
            if settings.WEIR.monitor:
                from controlplane.monitoring.hub import hub, through_loop
                from controlplane.monitoring.monitor import build

                hub.deliver_through(through_loop(asyncio.get_running_loop(), deliver_locally))
                monitor = build(settings.WEIR.zookeeper, hub)
                monitor.start()
            else:
                receiver = asyncio.create_task(receive_for_pages())
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            if receiver is not None:
                receiver.cancel()
                await asyncio.gather(receiver, return_exceptions=True)
            if monitor is not None:
                await asyncio.to_thread(monitor.stop)
            set_sharing(False)
            await send({"type": "lifespan.shutdown.complete"})
            return
