from __future__ import annotations

import asyncio
import threading

import pytest

from controlplane.monitoring.hub import KEPT, Hub, through_loop
from controlplane.monitoring.live_events import LIVE_GROUP


def test_a_page_that_reconnects_gets_the_missed_updates() -> None:
    hub = Hub()
    run, seq = hub.latest()
    for i in range(5):
        hub.publish("cluster", {"i": i})
    missed = hub.since(run, seq + 2)
    assert missed is not None
    assert [u["data"]["i"] for u in missed] == [2, 3, 4]
    assert hub.since(run, 5) == []


def test_a_page_that_reconnects_too_late_must_reload() -> None:
    hub = Hub()
    for i in range(KEPT + 10):
        hub.publish("cluster", {"i": i})
    assert hub.since(hub.run, 3) is None
    assert hub.since("another run", KEPT) is None
    assert hub.since(hub.run, KEPT + 99) is None
    assert len(hub.since(hub.run, 10) or []) == KEPT


def test_updates_of_the_monitors_thread_reach_sockets_in_order() -> None:
    async def main() -> list[int]:
        from channels.layers import get_channel_layer

        hub = Hub()
        hub.deliver_through(through_loop(asyncio.get_running_loop()))
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(LIVE_GROUP, channel)
        thread = threading.Thread(target=lambda: [hub.publish("lag", {"i": i}) for i in range(50)])
        thread.start()
        got = [(await asyncio.wait_for(layer.receive(channel), 10))["seq"] for _ in range(50)]
        thread.join()
        return got

    assert asyncio.run(main()) == list(range(1, 51))


def test_a_closed_event_loop_does_not_stop_the_monitor() -> None:
    loop = asyncio.new_event_loop()
    hub = Hub()
    hub.deliver_through(through_loop(loop))
    loop.close()
    assert hub.publish("cluster", {})["seq"] == 1


@pytest.mark.parametrize("threads", [4])
def test_update_numbers_are_unique(threads: int) -> None:
    hub = Hub()
    seen: list[int] = []
    hub.deliver_through(lambda u: seen.append(u["seq"]))
    workers = [threading.Thread(target=lambda: [hub.publish("lag", {}) for _ in range(100)]) for _ in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert seen == list(range(1, 401))
