"""Delivery of live updates to the sockets of a process: who gets which rows, gaps, another run, the failure of the channel layer."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_connection
from typing import Any

import pytest
import redis.exceptions
from channels.layers import get_channel_layer
from channels_redis.core import RedisChannelLayer

from console import live_fanout
from console.live_fanout import LiveFanout, deliver_locally, fanout, receive_for_pages
from controlplane.monitoring import live_events, live_selectors
from controlplane.monitoring.hub import Hub, UpdateBuffer, through_loop
from controlplane.monitoring.live_events import LIVE_GROUP, LIVE_TYPE, LiveUpdate
from controlplane.monitoring.live_packing import pack
from tests.cluster.local import free_port


class Socket:
    def __init__(self) -> None:
        self.got: list[LiveUpdate] = []
        self.lost: list[tuple[str, int]] = []
        self.called = asyncio.Event()

    def deliver(self, update: LiveUpdate) -> None:
        self.got.append(update)
        self.called.set()

    def lose_position(self, run: str, seq: int) -> None:
        self.lost.append((run, seq))

    def end(self) -> None:
        self.called.set()

    def names(self) -> list[str]:
        """The rows of topics and groups that it got."""
        return [
            row.get("name") or row["group_id"]
            for u in self.got
            for rows in u["data"].values()
            if isinstance(rows, list)
            for row in rows
            if isinstance(row, dict)
        ]


@pytest.fixture(autouse=True)
def no_received_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates that a test receives must not be seen by the tests after it."""
    monkeypatch.setattr(live_selectors, "hub", Hub())
    monkeypatch.setattr(live_selectors, "received", UpdateBuffer())


def update(seq: int, kind: str, data: dict[str, Any], run: str = "r") -> LiveUpdate:
    return LiveUpdate(run=run, seq=seq, kind=kind, data=data)


def test_a_socket_gets_the_rows_of_its_subjects_only() -> None:
    live = LiveFanout()
    orders, flights, group, alerts = Socket(), Socket(), Socket(), Socket()
    live.subscribe(orders, {"topic:orders", "partition:orders:0", "partitions:orders"})
    live.subscribe(flights, {"partitions:flights", "cluster"})
    live.subscribe(group, {"group:a:b", "lag:a:b:orders:3"})
    live.subscribe(alerts, {"statuses"})
    topics = [{"name": n} for n in ("orders", "flights", "others")]
    live.deliver([update(1, live_events.TOPICS, {"topics": topics, "gone": ["orders"]})])
    assert orders.names() == ["orders"] and orders.got[0]["data"]["gone"] == ["orders"]
    assert flights.names() == ["flights"] and flights.got[0]["data"]["gone"] == []
    groups = [{"group_id": "a:b"}, {"group_id": "c"}]
    live.deliver([update(2, live_events.GROUPS, {"groups": groups, "gone": [], "statuses_changed": True})])
    assert group.names() == ["a:b"] and alerts.names() == [], "without the rows of all groups"
    assert alerts.got[-1]["data"]["statuses_changed"], "its panels depend on the status of every group"
    live.deliver([update(3, live_events.LAG, {"group_id": "a:b", "partitions": []})])
    live.deliver([update(4, live_events.LAG, {"group_id": "c", "partitions": []})])
    live.deliver([update(5, live_events.PARTITIONS, {"topic": "orders", "partitions": []})])
    assert [u["seq"] for u in group.got] == [2, 3] and [u["seq"] for u in orders.got] == [1, 5]
    live.deliver([update(6, live_events.CLUSTER, {})])
    assert [s.got[-1]["seq"] for s in (orders, flights, group, alerts)] == [6] * 4


def test_new_subjects_replace_the_former_ones_and_nothing_is_left_of_a_closed_socket() -> None:
    live, socket = LiveFanout(), Socket()
    live.subscribe(socket, {"topic:a", "topic:b"})
    live.subscribe(socket, {"topic:b"})
    rows = [{"name": "a"}, {"name": "b"}]
    live.deliver([update(1, live_events.TOPICS, {"topics": rows})])
    assert socket.names() == ["b"]
    live.unsubscribe(socket)
    live.unsubscribe(socket)
    live.deliver([update(2, live_events.TOPICS, {"topics": rows}), update(3, live_events.CLUSTER, {})])
    assert len(socket.got) == 1 and not live._by_key and not live._keys


def test_the_requests_for_panels_are_spread_over_a_time_that_grows_with_the_open_pages() -> None:
    live = LiveFanout()
    sockets = [Socket() for _ in range(1_000)]
    spreads = {}
    for n, socket in enumerate(sockets, 1):
        live.subscribe(socket, {"cluster"})
        spreads[n] = live.panel_spread_ms()
    assert [spreads[n] for n in (1, 2, 3, 100, 250, 1_000)] == [100, 100, 120, 4_000, 10_000, 10_000]
    for socket in sockets[1:]:
        live.unsubscribe(socket)
    assert live.panel_spread_ms() == 100


def test_a_gap_and_another_run_are_reported_and_a_repeated_update_is_not_delivered() -> None:
    live, socket = LiveFanout(), Socket()
    live.subscribe(socket, {"cluster"})
    live.deliver([update(n, live_events.CLUSTER, {}) for n in (5, 6, 6, 5, 7)])
    assert [u["seq"] for u in socket.got] == [5, 6, 7] and not socket.lost
    live.deliver([update(9, live_events.CLUSTER, {}), update(1, live_events.CLUSTER, {}, "s")])
    assert socket.lost == [("r", 8), ("s", 0)] and live_selectors.latest() == ("s", 1)


def test_updates_of_another_process_are_kept_for_pages_that_connect() -> None:
    live, socket = LiveFanout(), Socket()
    live.subscribe(socket, {"cluster"})
    live.deliver([update(n, live_events.CLUSTER, {}) for n in (5, 6)])
    assert live_selectors.latest() == ("r", 6)
    assert [u["seq"] for u in live_selectors.since("r", 5) or []] == [6]
    assert live_selectors.since("r", 3) is None


def test_the_sockets_of_a_process_are_one_receiver_which_ends_with_the_last() -> None:
    async def main() -> None:
        layer, live = get_channel_layer(), fanout()
        assert fanout() is live
        one, other = Socket(), Socket()
        for socket in (one, other):
            await live.start()
            live.subscribe(socket, {"cluster"})
        assert len(layer.groups[LIVE_GROUP]) == 1
        await layer.group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": [pack(update(1, live_events.CLUSTER, {}))]})
        async with asyncio.timeout(30):
            await one.called.wait()
            await other.called.wait()
        live.unsubscribe(one)
        assert live_selectors.latest() == ("r", 1)
        receiver = live._task
        assert receiver is not None
        live.unsubscribe(other)
        await asyncio.wait([receiver], timeout=30)
        assert not layer.groups.get(LIVE_GROUP)
        assert live_selectors.latest()[1] == 0, "a page that connects later has missed something"

    asyncio.run(main())


def test_a_failure_of_the_channel_layer_ends_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        live, socket = fanout(), Socket()

        async def fail(channel: str) -> None:
            raise ConnectionError("no Redis")

        await live.start()
        live.subscribe(socket, {"cluster"})
        live.unsubscribe(Socket())
        monkeypatch.setattr(get_channel_layer(), "receive", fail)
        await get_channel_layer().group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": []})
        async with asyncio.timeout(30):
            await socket.called.wait()
        assert not socket.got
        monkeypatch.undo()
        live.unsubscribe(socket)
        await live.start()

    asyncio.run(main())


def test_a_socket_catches_up_with_the_rows_of_its_subjects_only() -> None:
    live, socket = LiveFanout(), Socket()
    live.subscribe(socket, {"topic:a", "lag:g:a:0", "statuses"})
    rows = [{"name": "a"}, {"name": "b"}]
    groups = {"groups": [{"group_id": "g"}], "gone": [], "statuses_changed": False}
    missed = [
        update(1, live_events.TOPICS, {"topics": rows, "gone": ["c"]}),
        update(2, live_events.TOPICS, {"topics": rows[1:], "gone": []}),
        update(3, live_events.LAG, {"group_id": "g", "partitions": [1]}),
        update(4, live_events.LAG, {"group_id": "h", "partitions": [1]}),
        update(5, live_events.PARTITIONS, {"topic": "a", "partitions": [1]}),
        update(6, live_events.GROUPS, groups),
        update(7, live_events.GROUPS, {**groups, "statuses_changed": True}),
        update(8, live_events.CLUSTER, {"topics": 3}),
    ]
    parts = live.parts(socket, missed)
    assert [u["seq"] for u in parts] == [1, 3, 7, 8]
    assert parts[0]["data"] == {"topics": rows[:1], "gone": []}
    assert parts[2]["data"] == {"groups": [], "gone": [], "statuses_changed": True}


def test_updates_of_the_monitor_of_this_process_need_no_channel_layer() -> None:
    """The in-memory layer copied each update, which took a sixth of the CPU of a console with 100 open pages."""

    async def main() -> None:
        hub, live, socket = Hub(), fanout(), Socket()
        hub.deliver_through(through_loop(asyncio.get_running_loop(), deliver_locally))
        await live.start()
        live.subscribe(socket, {"cluster"})
        data: dict[str, Any] = {"topics": 3}
        threading.Thread(target=lambda: hub.publish(live_events.CLUSTER, data)).start()
        async with asyncio.timeout(30):
            await socket.called.wait()
        assert [u["data"] for u in socket.got] == [data] and socket.got[0]["data"] is data
        live.unsubscribe(socket)

    asyncio.run(main())


def test_an_error_of_one_delivery_ends_the_sockets_and_not_the_delivery() -> None:
    class FailingSocket(Socket):
        def deliver(self, update: LiveUpdate) -> None:
            raise KeyError("a field that the page does not know")

    async def main() -> None:
        hub, live, failing, other = Hub(), fanout(), FailingSocket(), Socket()
        hub.deliver_through(through_loop(asyncio.get_running_loop(), deliver_locally))
        await live.start()
        live.subscribe(failing, {"cluster"})
        hub.publish(live_events.CLUSTER, {})
        async with asyncio.timeout(30):
            await failing.called.wait()
        live.unsubscribe(failing)
        await live.start()
        live.subscribe(other, {"cluster"})
        hub.publish(live_events.CLUSTER, {})
        async with asyncio.timeout(30):
            await other.called.wait()
        assert [u["seq"] for u in other.got] == [2]
        live.unsubscribe(other)

    asyncio.run(main())


@contextmanager
def redis_server(port: int, folder: Path) -> Iterator[None]:
    program = shutil.which("redis-server")
    assert program is not None, "apt install redis-server"
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                create_connection(("127.0.0.1", port), 30).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    with redis_server(port, tmp_path):
        yield f"redis://127.0.0.1:{port}/0"


def test_updates_arrive_through_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of channels_redis receives the channels of one prefix. The consumer of each socket is the first that receives: the channel of the fanout had
    a prefix of its own, so no live update arrived in production."""

    async def main() -> None:
        layer = RedisChannelLayer(hosts=[redis_url])
        monkeypatch.setattr(live_fanout, "get_channel_layer", lambda: layer)
        consumer_channel = await layer.new_channel()
        consumer = asyncio.create_task(layer.receive(consumer_channel))
        await asyncio.sleep(0)
        live, socket = fanout(), Socket()
        await live.start()
        live.subscribe(socket, {"cluster"})
        await layer.group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": [pack(update(1, live_events.CLUSTER, {}))]})
        try:
            async with asyncio.timeout(30):
                await socket.called.wait()
            assert [u["seq"] for u in socket.got] == [1]
        finally:
            consumer.cancel()
            receiver = live._task
            live.unsubscribe(socket)
            if receiver is not None:
                await asyncio.wait([receiver], timeout=30)
            await layer.close_pools()

    asyncio.run(main())


def test_a_process_without_sockets_knows_the_position_and_buffers_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of a process without sockets had no position. Their sockets, in another process, reloaded them every three seconds."""
    monkeypatch.setattr(live_fanout, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(live_fanout, "IDLE_ROWS", 2)
    port = free_port()
    layer = RedisChannelLayer(hosts=[f"redis://127.0.0.1:{port}/0"])
    monkeypatch.setattr(live_fanout, "get_channel_layer", lambda: layer)

    async def receive(run: str, last: int) -> None:
        """Send updates until this process knows the position of one."""
        async with asyncio.timeout(60):
            seq = last
            while live_selectors.latest()[0] != run or live_selectors.since(run, live_selectors.latest()[1] - 2):
                seq += 1
                topics = update(seq, live_events.TOPICS, {"topics": [{"name": "a"}, {"name": "b"}], "gone": []}, run)
                message = {"type": LIVE_TYPE, "updates": [pack(topics)]}
                with suppress(redis.exceptions.ConnectionError):  # a connection from before the restart
                    await layer.group_send(LIVE_GROUP, message)
                await asyncio.sleep(0.05)
        known = live_selectors.latest()[1]
        assert [u["seq"] for u in live_selectors.since(run, known - 1) or []] == [known]
        assert live_selectors.since(run, known - 2) is None

    async def main() -> None:
        with redis_server(port, tmp_path):
            receiving = asyncio.create_task(receive_for_pages())
            await receive("first", 10)
        with redis_server(port, tmp_path):
            await receive("second", 20)
            receiver = fanout()._task
            assert receiver is not None
            receiving.cancel()
            await asyncio.wait([receiving, receiver], timeout=30)
            assert not await layer.connection(0).zcard(layer._group_key(LIVE_GROUP))
            await layer.close_pools()
        assert live_selectors.latest()[1] == 0, "a page that connects later has missed something"

    asyncio.run(main())


def test_a_receiver_that_failed_does_not_count_as_receiving_while_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver leaves its group before its task ends. A socket that began in that time got no updates."""

    async def main() -> None:
        layer, left = get_channel_layer(), asyncio.Event()

        async def fail(*_: object) -> None:
            raise ConnectionError("no Redis")

        async def leave(*_: object) -> None:
            await left.wait()

        monkeypatch.setattr(layer, "group_add", fail)
        monkeypatch.setattr(layer, "group_discard", leave)
        live = fanout()
        async with asyncio.timeout(30):
            assert not await live.start()
            assert not await live.start(), "the task has not ended"
        monkeypatch.undo()
        left.set()
        assert live._task is not None
        await asyncio.wait([live._task], timeout=30)
        async with asyncio.timeout(30):
            assert await live.start()
        receiver = live._task
        live.subscribe(socket := Socket(), {"cluster"})
        live.unsubscribe(socket)
        await asyncio.wait([receiver], timeout=30)

    asyncio.run(main())
