"""The lifespan of the application: the cluster monitor starts and stops with it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from controlplane.monitoring import monitor as monitors


@pytest.fixture
def asgi(settings: Any) -> ModuleType:
    """The module, which builds all middleware when it is imported."""
    settings.SECRET_KEY_GIVEN = True
    return import_module("weir.asgi")


def lifespan(asgi: ModuleType) -> list[str]:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        return messages.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["type"])

    asyncio.run(asgi.application({"type": "lifespan"}, receive, send))
    return sent


@pytest.mark.parametrize("on", [True, False])
def test_a_process_runs_the_monitor_or_receives_its_updates(
    on: bool, asgi: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fake = SimpleNamespace(start=lambda: calls.append("start"), stop=lambda: calls.append("stop"))

    async def receive_for_pages() -> None:
        calls.append("receive")

    monkeypatch.setattr(asgi, "receive_for_pages", receive_for_pages)
    monkeypatch.setattr(asgi, "settings", SimpleNamespace(WEIR=SimpleNamespace(monitor=on, zookeeper="zk:1")))
    monkeypatch.setattr(monitors, "build", lambda address, hub: calls.append(address) or fake)
    assert lifespan(asgi) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert calls == (["zk:1", "start", "stop"] if on else ["receive"])


def test_other_connections_are_routed_and_not_part_of_the_lifespan(
    asgi: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed: list[str] = []

    async def router(scope: Any, receive: Any, send: Any) -> None:
        routed.append(scope["type"])

    monkeypatch.setattr(asgi, "router", router)
    nothing: Any = None
    asyncio.run(asgi.application({"type": "websocket"}, nothing, nothing))
    assert routed == ["websocket"]
