"""The web server's application: pages, API, sockets, and the observer's life. Law: wiring only.

`ProtocolTypeRouter` has no lifespan, so it is wrapped. Served by `uvicorn controlplane.site.asgi:application`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.site.settings")
pages = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.conf import settings  # noqa: E402

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def _sockets() -> list[Any]:
    """The console's socket routes (`console.sockets.urlpatterns`), none before the console exists."""
    if importlib.util.find_spec("console.sockets") is None:
        return []
    return list(importlib.import_module("console.sockets").urlpatterns)


router = ProtocolTypeRouter(
    {
        "http": pages,
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(_sockets()))),
    }
)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    else:
        await router(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    observer: Any = None
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            if settings.OBSERVER_ENABLED:
                from controlplane.live import hub, through_loop
                from controlplane.observer import build

                hub.deliver_through(through_loop(asyncio.get_running_loop()))
                observer = build(settings.HOUSE.zookeeper, hub)
                observer.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            if observer is not None:
                await asyncio.to_thread(observer.stop)
            await send({"type": "lifespan.shutdown.complete"})
            return
