from __future__ import annotations

import asyncio
import threading

import pytest

from controlplane.monitoring.hub import BATCH_ROWS, KEPT_ROWS, Hub, UpdateBuffer, through_loop
from controlplane.monitoring.live_events import LIVE_GROUP, LiveUpdate


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
    rows: list[dict[str, int]] = [{}] * 1_000
    kept = KEPT_ROWS // 1_000
    for _ in range(kept + 10):
        hub.publish("topics", {"topics": rows, "gone": []})
    assert hub.since(hub.run, 3) is None
    assert hub.since("another run", kept) is None
    assert hub.since(hub.run, kept + 99) == [], "a page of another web process, which is ahead"
    assert len(hub.since(hub.run, 10) or []) == kept


def test_one_large_update_is_kept() -> None:
    hub = Hub()
    hub.publish("topics", {"topics": [{}] * (2 * KEPT_ROWS)})
    assert len(hub.since(hub.run, 0) or []) == 1


def test_a_buffer_of_received_updates_has_no_gap() -> None:
    buffer = UpdateBuffer()

    def on_response(run: str, seq: int) -> None:
        buffer.append(LiveUpdate(run=run, seq=seq, kind="cluster", data={}))

    on_response("a", 7)
    on_response("a", 8)
    assert [u["seq"] for u in buffer.since("a", 6) or []] == [7, 8]
    assert buffer.since("a", 5) is None
    on_response("a", 11)
    assert buffer.since("a", 8) is None and [u["seq"] for u in buffer.since("a", 10) or []] == [11]
    on_response("b", 1)
    assert buffer.since("a", 11) is None and buffer.since("b", 1) == []
    for seq in (2, 3):
        buffer.append(LiveUpdate(run="b", seq=seq, kind="topics", data={"topics": [{}] * 3}), rows_max=4)
    assert buffer.since("b", 1) is None and [u["seq"] for u in buffer.since("b", 2) or []] == [3]
    buffer.clear()
    assert buffer.since("b", 1) is None


def test_updates_of_the_monitors_thread_reach_sockets_in_order() -> None:
    async def main() -> list[int]:
        from channels.layers import get_channel_layer

        hub = Hub()
        hub.deliver_through(through_loop(asyncio.get_running_loop()))
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(LIVE_GROUP, channel)
        thread = threading.Thread(target=lambda: [hub.publish("cluster", {"i": i}) for i in range(50)])
        thread.start()
        got: list[int] = []
        while len(got) < 50:
            message = await asyncio.wait_for(layer.receive(channel), 30)
            got += [u["seq"] for u in message["updates"]]
        thread.join()
        return got

    assert asyncio.run(main()) == list(range(1, 51))


def test_a_burst_does_not_overflow_the_channel_of_a_receiver() -> None:
    """A channel of the in-memory layer has room for 1,000 messages, and one round of samples of a large cluster has more updates."""
    updates, rows = 3_000, BATCH_ROWS // 2

    async def main() -> int:
        from channels.layers import get_channel_layer

        hub = Hub()
        hub.deliver_through(through_loop(asyncio.get_running_loop()))
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(LIVE_GROUP, channel)
        for _ in range(updates):
            hub.publish("topics", {"topics": [0] * rows})
        last = 0
        while last < updates:
            for update in (await asyncio.wait_for(layer.receive(channel), 30))["updates"]:
                assert update["seq"] == last + 1
                last += 1
        return last

    assert asyncio.run(main()) == updates


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


def test_the_newest_update_of_a_kind_up_to_a_position() -> None:
    hub = Hub()
    for kind in ("cluster", "brokers", "cluster", "moves"):
        hub.publish(kind, {})
    found = [hub.newest("cluster", hub.run, seq) for seq in range(5)]
    assert [u and u["seq"] for u in found] == [None, 1, 1, 3, 3]
    assert hub.newest("cluster", "another run", 4) is None and hub.newest("lag", hub.run, 4) is None
