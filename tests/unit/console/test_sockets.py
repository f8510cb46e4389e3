"""The live socket with the messages of a browser. A page stores the number of the last message and sends it after
each reload of a panel. An update that was published after the page was loaded must not be missing then.

Does not cover the browser's side (tests/browser) or authentication and closing of the socket (test_access).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.contrib.auth.models import AnonymousUser

from console import session_checks, sockets
from controlplane.domain.record_tail import TailEnd
from controlplane.monitoring import live_events, live_selectors
from controlplane.monitoring.age import DataAge
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.live_events import LIVE_GROUP, LIVE_TYPE
from controlplane.monitoring.live_packing import pack
from tests import live_moves

MOVE = "move:7"


class FakeUser(AnonymousUser):
    """A logged-in user without a row."""

    is_authenticated = True  # type: ignore[assignment]


class Page:
    """The browser's side: the last received number and the state that the page shows."""

    def __init__(self, socket: ApplicationCommunicator, run: str, seq: int) -> None:
        self.socket, self.run, self.seq = socket, run, seq
        self.state = ""
        self.refreshed: set[str] = set()

    async def send_subjects(self) -> None:
        message = json.dumps({"run": self.run, "seq": self.seq, "subjects": [MOVE, "brokers"]})
        await self.socket.send_input({"type": "websocket.receive", "text": message})

    async def receive(self) -> None:
        message = json.loads((await self.socket.receive_output(30))["text"])
        self.run, self.seq = message["run"], message["seq"]
        self.refreshed |= set(message["refresh"])
        for subject, field, html in message["cells"]:
            if (subject, field) == (MOVE, "state"):
                self.state = html


def move(state: str) -> dict[str, object]:
    return {**live_moves.MOVE, "id": 7, "state": state, "percent": 70.0}


def run(
    monkeypatch: pytest.MonkeyPatch, scene: Callable[[Page, Callable[[str], Any]], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        hub = Hub()
        monkeypatch.setattr(live_selectors, "hub", hub)

        async def current_data_age() -> DataAge:
            return DataAge(0.0, zookeeper_away=False, samples_current=True)

        monkeypatch.setattr(sockets._age, "now", current_data_age)
        monkeypatch.setattr(session_checks, "signed_in", lambda key: True)
        layer = get_channel_layer()
        scope = {"type": "websocket", "path": "/ws/live", "user": FakeUser()}
        socket = ApplicationCommunicator(sockets.LiveSocket.as_asgi(), scope)
        await socket.send_input({"type": "websocket.connect"})
        assert (await socket.receive_output(30))["type"] == "websocket.accept"
        page = Page(socket, *hub.latest())

        async def publish(state: str) -> None:
            update = hub.publish(live_events.MOVES, {"moves": [move(state)], "listed": True})
            await layer.group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": [pack(update)]})

        try:
            await scene(page, publish)
        finally:
            await socket.send_input({"type": "websocket.disconnect", "code": 1000})
            await socket.wait(30)

    asyncio.run(main())


async def receive_until(page: Page, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await page.receive()


def test_a_page_receives_published_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use_page(page: Page, publish: Callable[[str], Any]) -> None:
        await page.send_subjects()
        await page.receive()
        await publish("running")
        await receive_until(page, lambda: "running" in page.state)

    run(monkeypatch, use_page)


def test_a_page_catches_up_after_a_lost_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver had already moved its position behind the gap when it notified the sockets: none of them saw that it had missed something."""

    async def use_page(page: Page, publish: Callable[[str], Any]) -> None:
        await page.send_subjects()
        await page.receive()
        await publish("running")
        await receive_until(page, lambda: "running" in page.state)
        live_selectors.hub.publish(live_events.MOVES, {"moves": [move("paused")], "listed": True})  # type: ignore[attr-defined]
        later = live_selectors.hub.publish(live_events.CHANGES, {"id": 1, "pending": 0})  # type: ignore[attr-defined]
        await get_channel_layer().group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": [pack(later)]})
        await receive_until(page, lambda: "paused" in page.state)

    run(monkeypatch, use_page)


@pytest.mark.parametrize("connected_first", [False, True])
def test_a_change_between_the_load_of_the_page_and_its_first_update_reloads_the_panel(
    monkeypatch: pytest.MonkeyPatch, connected_first: bool
) -> None:
    """The page of an alert that ended in this second showed it as open until the next alert."""
    counts = {"leaders": 3, "replicas": 9, "replicas_out_of_sync": 0, "size_bytes": 10, "answered": True}

    def brokers(alive: bool) -> Any:
        data = {"brokers": [{"broker_id": 1, "alive": alive, **counts}]}
        return live_selectors.hub.publish(live_events.BROKERS, data)  # type: ignore[attr-defined]

    async def use_page(page: Page, publish: Callable[[str], Any]) -> None:
        loaded = brokers(True)
        page.run, page.seq = loaded["run"], loaded["seq"]
        if connected_first:
            await page.send_subjects()
            await page.receive()
        later = brokers(False)
        if not connected_first:
            await page.send_subjects()
        await get_channel_layer().group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": [pack(later)]})
        await receive_until(page, lambda: "brokers" in page.refreshed)

    run(monkeypatch, use_page)


def test_a_browser_connects_again_if_the_channel_layer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket stayed open without updates until another page connected."""

    async def fail(*_: object) -> None:
        raise ConnectionError("no Redis")

    async def use_page(page: Page, publish: Callable[[str], Any]) -> None:
        monkeypatch.setattr(get_channel_layer(), "group_add", fail)
        await page.send_subjects()
        message = await page.socket.receive_output(30)
        assert (message["type"], message["code"]) == ("websocket.close", sockets.SERVER_ERROR)

    run(monkeypatch, use_page)


def test_a_heartbeat_has_the_number_of_the_last_sent_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update is buffered for a moment before it is sent. A heartbeat in that moment carried the number of the
    update. The page, which was reloading a panel, then confirmed that number, and the server dropped the update: the
    move stayed “rolling back” forever."""
    monkeypatch.setattr(sockets, "FLUSH_SECONDS", 1.0)
    monkeypatch.setattr(sockets, "HEARTBEAT_SECONDS", 0.1)

    async def use_page(page: Page, publish: Callable[[str], Any]) -> None:
        await page.send_subjects()
        await page.receive()
        await publish("rolled_back")
        for _ in range(40):
            await page.receive()  # a heartbeat, or the update
            await page.send_subjects()  # a panel was read again
            if "rolled back" in page.state:
                return
        raise AssertionError(f"the page still says {page.state!r} at number {page.seq}")

    run(monkeypatch, use_page)


def test_a_tail_belongs_to_the_socket_and_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []
    ends: list[TailEnd] = []

    class FakePageTail:
        def __init__(self, user: Any, send: Any) -> None:
            assert user.is_authenticated

        def receive(self, message: Any) -> None:
            received.append(message)

        def end(self, end: TailEnd) -> None:
            ends.append(end)

    monkeypatch.setattr(sockets, "PageTail", FakePageTail)

    async def use_page(page: Page, publish: Callable[[str], Any]) -> None:
        message = {"id": 1, "do": "start", "query": "topic=orders"}
        await page.socket.send_input({"type": "websocket.receive", "text": json.dumps({"tail": message})})
        await page.send_subjects()
        await page.receive()
        assert received == [message] and ends == []
        await publish("running")
        await receive_until(page, lambda: "running" in page.state)

    run(monkeypatch, use_page)
    assert ends == [TailEnd.CLOSED]
