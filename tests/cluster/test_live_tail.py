"""A live tail on a whole local cluster, over the WebSocket of the console: it shows each record once, also while the leader of a partition dies, and
ends with its connection."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Message, Producer
from websockets.sync.client import ClientConnection, connect

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import PATIENCE_SECONDS, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
TOPIC = "orders"
ROW = re.compile(r'<td class="num"[^>]*><a [^>]*>(\d+)</a></td>\s*<td class="num"[^>]*>(\d+)</td>')
Places = set[tuple[int, int]]
"""(partition, offset)"""


@pytest.fixture(scope="module")
def devcluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    devcluster = DevCluster(tmp_path_factory.mktemp("devcluster"), "--controllers", "1")
    try:
        devcluster.topic(TOPIC, partitions=3, replication_factor=3)
        yield devcluster
    finally:
        devcluster.end()


def open_socket(devcluster: DevCluster) -> ClientConnection:
    """The WebSocket of a user who has logged in."""
    base = devcluster.console.rstrip("/")
    with httpx.Client(base_url=base, trust_env=False, timeout=60) as client:
        client.get("/login/")
        form = {
            "username": devcluster.user,
            "password": devcluster.password,
            "csrfmiddlewaretoken": next(v for n, v in client.cookies.items() if n.startswith("weir_csrf_")),
        }
        assert client.post("/login/", data=form, headers={"Referer": base}).status_code == 302
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    address = base.replace("http", "ws", 1) + "/ws/live"
    return connect(address, additional_headers={"Cookie": cookies}, origin=base, proxy=None)  # type: ignore[arg-type]


class Tail:
    def __init__(self, socket: ClientConnection, query: str) -> None:
        self.socket = socket
        self.rows: list[tuple[int, int]] = []
        self.last: dict[str, Any] = {}
        socket.send(json.dumps({"tail": {"id": 1, "do": "start", "query": query}}))

    def until_live(self) -> None:
        self._wait_until(lambda: self.last.get("state") == "live", "the tail to be live")

    def until_rows(self, wanted: Places) -> None:
        self._wait_until(lambda: wanted <= set(self.rows), f"{len(wanted)} records")

    def _wait_until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}: {len(self.rows)} rows, {self.last}"
            try:
                message = json.loads(self.socket.recv(timeout=1))
            except TimeoutError:
                continue
            finally:
                self.socket.send(json.dumps({"tail": {"id": 1, "do": "visible"}}))
            if "tail" in message:
                self.last = message["tail"]
                for row in self.last["rows"]:
                    found = ROW.search(row)
                    assert found, row
                    self.rows.append((int(found[2]), int(found[1])))


def produce(devcluster: DevCluster, count: int) -> Places:
    places: Places = set()

    def on_delivery(error: object, message: Message) -> None:
        assert error is None
        places.add((message.partition(), message.offset()))

    producer = Producer({**devcluster.client, "acks": "all", "enable.idempotence": True, "log_level": 0})
    for i in range(count):
        producer.produce(TOPIC, f"value {i}", key=str(i), on_delivery=on_delivery)
    assert producer.flush(90) == 0 and len(places) == count
    return places


def tail_ends(devcluster: DevCluster) -> list[dict[str, Any]]:
    return [c for c in devcluster.get("changes?object_kind=records")["rows"] if c["verb"] == "records.tail_end"]


def test_a_tail_shows_each_record_once_while_a_leader_dies(devcluster: DevCluster) -> None:
    old = produce(devcluster, 30)
    with open_socket(devcluster) as socket:
        tail = Tail(socket, f"topic={TOPIC}")
        tail.until_live()
        wanted = produce(devcluster, 20)
        tail.until_rows(wanted)
        before = devcluster.leaders(TOPIC)
        victim = before[0]
        devcluster.manage("process", "kill", f"broker-{victim}")
        wait_for(lambda: victim not in (devcluster.leaders(TOPIC) or before).values(), "new leaders")
        wanted |= produce(devcluster, 20)
        tail.until_rows(wanted)
        assert len(tail.rows) == len(set(tail.rows)) == 40 and not old & set(tail.rows)
    (end,) = wait_for(lambda: tail_ends(devcluster), "the end of the tail in the audit log")
    assert end["after"]["end"] == "closed" and end["after"]["shown"] == 40, end
    assert (end["after"]["dropped"], end["after"]["unread"]) == (0, 0)
