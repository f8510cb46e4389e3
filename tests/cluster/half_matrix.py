"""Half messages with one party killed at one step, for every party and step; and a load of many messages with decisions by chance.

`python -m tests.cluster.half_matrix` runs the matrix: a producer writes messages and decides two of three, one party gets SIGKILL at a step, starts again
after RESTART_S, and another instance of the shop answers the checks. A last cell kills three parties, one after the other, while messages expire (eight
minutes after their writing). `--messages N` runs the load instead and prints rates. All check that the topic has each committed message exactly once, and
no other one.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.cluster.controller_processes import ControllerProcesses
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_half_messages import HalfMessageProducer, consumer, create_topics, leader

MESSAGES = 60
RESTART_S = 3.0
STEPS = ("messages", "decisions", "deliveries", "checks")
CONTROLLER = "controller and front leader"
"""Both are killed. The front partition has no leader until the session of the active controller has expired and the standby is elected."""
PARTIES = ("front leader", "topic leader", "check leader", CONTROLLER, "shop")
DEADLINE_S = 120
QUIET_S = 12
"""Two first checks: no message is left."""
QUIET_WITHOUT_SHOP_S = 36
"""One check interval more: which messages the killed shop wrote is not known."""
EXPIRING, EXPIRING_PAUSE_S = 150, 0.4
"""Messages of the cell of the expiry, and the pause between two of them: their expiry takes as long."""
EXPIRY_S_MAX = 900
FATES = ("commit", "rollback", None)
"""The decision of the first instance. The second one commits what the first one left."""


def shop_main(bootstrap: str, topic: str, step: str) -> None:
    """The first instance, in its own process: writes and decides, and prints the step that it has reached."""
    shop = HalfMessageProducer(bootstrap, topic)
    for i in range(MESSAGES):
        shop.write(f"m{i}")
        if step == "messages" and i == MESSAGES // 2:
            print("reached", flush=True)
    shop.flush()
    for i in range(MESSAGES):
        if (fate := FATES[i % 3]) is not None:
            shop.write(f"m{i}", fate)
        if step == "decisions" and i == MESSAGES // 2:
            print("reached", flush=True)
    shop.flush()
    print("reached", flush=True)
    sys.stdin.read()


def party_broker(cluster: LocalCluster, topic: str, party: str) -> int:
    front = f"{topic}.half"
    names = {"front leader": front, CONTROLLER: front, "topic leader": topic, "check leader": f"{topic}.half.check"}
    return leader(cluster, names.get(party, f"{topic}.half.expired"))


def kill_and_restart(cluster: ControllerProcesses, topic: str, party: str) -> None:
    broker, controller = party_broker(cluster, topic, party), ""
    if party == CONTROLLER:
        controller = cluster.active_controller()
        cluster.kill(controller)
    cluster.kill(f"broker-{broker}")
    threading.Event().wait(RESTART_S)
    if controller:
        cluster.start_candidate(controller)
    cluster.start_broker(broker)


class CheckResponder:
    """The second instance: commits every message that is checked. Each decision is a batch: the broker rejects a batch with a message that was decided
    after its check, and librdkafka then reports INVALID_RECORD for valid records too."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._consumer, self._shop = (
            consumer(cluster, f"{topic}.half.check"),
            HalfMessageProducer(cluster.bootstrap, topic, **{"batch.num.messages": 1}),
        )
        self.committed: set[str] = set()

    def poll(self) -> None:
        message = self._consumer.poll(0.2)
        if message is None or message.error():
            return
        half_id = (message.value() or b"").decode()
        if half_id not in self.committed:
            self.committed.add(half_id)
            self._shop.write(half_id, "commit")

    def finish(self) -> set[str]:
        """The ids whose commit counted."""
        self._shop.flush()
        self._consumer.close()
        return {i for i in self.committed if (i, "commit") not in self._shop.errors}


def run_cell(cluster: ControllerProcesses, party: str, step: str) -> None:
    """Raises AssertionError if a message is missing, twice, or was not committed."""
    cluster.until_at_rest()
    topic = create_topics(cluster)
    reader, values = consumer(cluster, topic), list[str]()
    own = {f"m{i}" for i in range(MESSAGES) if FATES[i % 3] == "commit"}
    rolled_back = {f"m{i}" for i in range(MESSAGES) if FATES[i % 3] == "rollback"}
    everything = {f"m{i}" for i in range(MESSAGES)}
    command = [sys.executable, "-m", "tests.cluster.half_matrix", "--shop", cluster.bootstrap, topic, step]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shop:
        assert shop.stdin is not None and shop.stdout is not None
        assert shop.stdout.readline() == "reached\n", "the shop ended"
        if step == "checks":
            checks = consumer(cluster, f"{topic}.half.check")
            wait_for(lambda: checks.poll(0.2) is not None, "the first check", 60)
            checks.close()
        if party == "shop":
            shop.kill()
        else:
            kill_and_restart(cluster, topic, party)
            if step in ("messages", "decisions"):
                assert shop.stdout.readline() == "reached\n", "the shop did not survive the kill"
            shop.stdin.close()
    responder = CheckResponder(cluster, topic)
    quiet_since = began = time.monotonic()
    quiet_s = QUIET_WITHOUT_SHOP_S if party == "shop" else QUIET_S
    seen = 0

    def is_late() -> bool:
        """On a busy machine, consumers may need longer than the quiet time to find their coordinator again."""
        missing = party != "shop" and not set(values) >= everything - rolled_back
        return missing and time.monotonic() < began + DEADLINE_S

    while is_late() or time.monotonic() < quiet_since + quiet_s:
        responder.poll()
        message = reader.poll(0.05)
        if message is not None and not message.error():
            values.append((message.value() or b"").decode())
        if len(values) + len(responder.committed) != seen:
            seen, quiet_since = len(values) + len(responder.committed), time.monotonic()
    second = responder.finish()
    reader.close()
    counted = Counter(values)
    assert max(counted.values(), default=1) == 1, [v for v, n in counted.items() if n > 1]
    assert set(counted) >= second, f"a commit was lost: {second - set(counted)}"
    assert set(counted) <= own | second, f"nobody committed {set(counted) - own - second}"
    if party != "shop":
        assert set(counted) == everything - rolled_back, (everything - rolled_back) ^ set(counted)


def expiry(cluster: ControllerProcesses) -> None:
    """Undecided messages expire while parties are killed. Raises AssertionError if one is missing, expired twice, or in the topic."""
    cluster.until_at_rest()
    topic = create_topics(cluster)
    shop = HalfMessageProducer(cluster.bootstrap, topic)
    reader, delivered = consumer(cluster, f"{topic}.half.expired"), consumer(cluster, topic)
    values: dict[tuple[int | None, int | None], str] = {}
    """By partition and offset: after the failure of its coordinator a consumer reads from the last committed offset again."""

    def poll() -> int:
        if (message := reader.poll(0.1)) is not None and not message.error():
            values[message.partition(), message.offset()] = (message.value() or b"").decode()
        return len(values)

    for i in range(EXPIRING):
        shop.write(f"m{i}")
        threading.Event().wait(EXPIRING_PAUSE_S)
    shop.flush()
    for i, party in enumerate(("front leader", "expired leader", CONTROLLER)):
        part = i * EXPIRING // 3
        wait_for(lambda part=part: poll() > part, f"more than {part} expired messages", EXPIRY_S_MAX)  # type: ignore[misc]
        assert len(values) < EXPIRING, "nothing expires any more"
        kill_and_restart(cluster, topic, party)
    wait_for(lambda: poll() and len({*values.values()}) >= EXPIRING, "all messages to expire", EXPIRY_S_MAX)
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + QUIET_S:
        poll()
        message = delivered.poll(0.1)
        assert message is None or message.error(), f"{message.value()!r} is in the topic"
    reader.close()
    delivered.close()
    places: dict[str, list[tuple[int | None, int | None]]] = {}
    for place, value in values.items():
        places.setdefault(value, []).append(place)
    twice = {value: found for value, found in places.items() if len(found) > 1}
    assert not twice, f"in the topic more than once, at (partition, offset): {twice}"


def matrix(cluster: ControllerProcesses, only: str) -> int:
    cells: dict[str, Callable[[], None]] = {
        f"{party} at {step}": partial(run_cell, cluster, party, step) for party in PARTIES for step in STEPS
    }
    cells["leaders and controller at expiry"] = partial(expiry, cluster)
    failed = 0
    for name, run in cells.items():
        if only not in name:
            continue
        began = time.monotonic()
        try:
            run()
            result = "each message once"
        except AssertionError as e:
            failed += 1
            result = f"FAILED: {e}"
        print(f"{name:41} {time.monotonic() - began:6.1f} s  {result}", flush=True)
    return failed


def load(cluster: LocalCluster, messages: int, seed: int) -> int:
    """Writes messages, decides each by chance, and reads the topic. Returns the number of wrong messages."""
    topic, rng = create_topics(cluster), random.Random(seed)
    fates = {f"m{i}": rng.choice(("commit", "rollback")) for i in range(messages)}
    shop = HalfMessageProducer(cluster.bootstrap, topic, **{"linger.ms": 5})
    expected = sum(fate == "commit" for fate in fates.values())
    counted: Counter[str] = Counter()
    reader = consumer(cluster, topic)
    done = threading.Event()

    def read(reader: Consumer) -> None:
        while not done.is_set() or counted.total() < expected:
            for message in reader.consume(1_000, 0.5):
                if not message.error():
                    counted[(message.value() or b"").decode()] += 1

    reading = threading.Thread(target=read, args=(reader,), daemon=True)
    reading.start()
    began = time.monotonic()
    window = 20_000
    """Undecided messages at a time."""
    ids = list(fates)
    for start in range(0, messages, window):
        part = ids[start : start + window]
        for half_id in part:
            produce(shop, lambda half_id=half_id: shop.write(half_id))  # type: ignore[misc]
        shop.flush()
        for half_id in part:
            produce(shop, lambda half_id=half_id: shop.write(half_id, fates[half_id]))  # type: ignore[misc]
        shop.flush()
        print(f"{start + len(part)} decided after {time.monotonic() - began:.0f} s", flush=True)
    decided_s = time.monotonic() - began
    done.set()
    before = -1
    # A backlog may take longer than the deadline of one delivery: the reading ends when nothing has arrived for that time.
    while reading.is_alive() and counted.total() > before:
        before = counted.total()
        reading.join(DEADLINE_S)
    read_s = time.monotonic() - began
    committed = {half_id for half_id, fate in fates.items() if fate == "commit"}
    missing = sum(not counted[half_id] for half_id in committed)
    twice = sum(counted[half_id] > 1 for half_id in committed)
    rolled_back = sum(number for half_id, number in counted.items() if half_id not in committed)
    wrong = missing + twice + rolled_back
    print(
        f"{messages} messages, {expected} committed: decided in {decided_s:.1f} s ({messages / decided_s:.0f}/s), "
        f"all read after {read_s:.1f} s; missing: {missing}, twice: {twice}, rolled back but delivered: {rolled_back}, rejected: {len(shop.errors)}"
    )
    return wrong + len(shop.errors)


def produce(shop: HalfMessageProducer, write: Callable[[], None]) -> None:
    while True:
        try:
            return write()
        except BufferError:
            shop.producer.poll(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="cells whose name contains this, for example 'shop at'")
    parser.add_argument("--messages", type=int, default=0, help="run the load with this number of messages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shop", nargs=3, metavar=("BROKERS", "TOPIC", "STEP"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.shop:
        shop_main(*given.shop)
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # the context managers end the brokers
    with tempfile.TemporaryDirectory() as folder, ControllerProcesses(Path(folder), 3) as cluster:
        AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30)
        wrong = load(cluster, given.messages, given.seed) if given.messages else matrix(cluster, given.only)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
