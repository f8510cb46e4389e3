"""Which partitions a broker delivers from: led partitions of front topics, while it leads them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, TopicPartition
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.front_partition import FrontState
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.half_messages import HalfDecision
from brokerd.delivery.half_records import HalfRecord
from brokerd.delivery.led_fronts import LedFronts
from brokerd.net.loop import Timer
from brokerd.replication.purgatory import Purgatory
from brokerd.runtime.front_delivery import FrontDelivery
from brokerd.wire import records
from brokerd.wire.records import Record

HALF_ID = UUID(int=5)


def replica(delay: str = "", half: str = "") -> Any:
    log = SimpleNamespace(start_offset=0, end_offset=0)
    config = SimpleNamespace(delay_topic=delay, half_topic=half)
    return SimpleNamespace(
        config=config,
        log=log,
        last_stable=lambda: 0,
        tp=TopicPartition(HALF_ID, 0),
        leads=True,
        core=SimpleNamespace(leader_epoch=3),
        hw_key=lambda: "hw",
    )


TIMERS: list[tuple[int, Callable[[Now], None]]] = []


@pytest.fixture(autouse=True)
def no_timers() -> None:
    TIMERS.clear()


def call_at(mono_ms: int, callback: Callable[[Now], None]) -> Timer:
    timer = Timer(callback)
    TIMERS.append((mono_ms, lambda now: None if timer.cancelled else callback(now)))
    return timer


class Client:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_request(self, broker: int, key: int, version: int, body: Any, done: Any) -> None:
        self.sent.append(body.topic_data[0].name)


def delivery(replicas: dict[tuple[str, int], Any], client: Any = None) -> FrontDelivery:
    image = SimpleNamespace(topics={HALF_ID: SimpleNamespace(name="t.half")}, topic_named=lambda name: None)
    replica_manager: Any = SimpleNamespace(
        find_by_name=lambda topic, partition: replicas.get((topic, partition)),
        image=image,
        hosted={r.tp: r for r in replicas.values() if r.config.half_topic},
        produce_suspended=False,
        purgatory=Purgatory(),
    )
    unused: Any = SimpleNamespace(appender=SimpleNamespace(half_fronts=LedFronts()))
    loop: Any = SimpleNamespace(now=Now(0, 0), call_at=call_at)
    return FrontDelivery(replica_manager, unused, loop, unused, client or unused, lambda: 7)


def test_only_front_partitions_are_served_and_only_while_they_are_led() -> None:
    found = delivery({("t.delay", 0): replica("t"), ("t", 0): replica()})
    for topic, partition in (("t", 0), ("t.delay", 0), ("t.delay", 1)):
        found.on_election(topic, partition, 3)
    assert list(found.fronts) == [("t.delay", 0)]
    front = found.fronts["t.delay", 0][0]
    assert isinstance(front, DelayedFront)
    found.on_election("t.delay", 0, 4)
    assert front.closed and found.fronts["t.delay", 0][0] is not front
    found.on_resignation("t.delay", 0)
    found.on_resignation("t", 0)
    assert not found.fronts


def test_half_messages_are_admitted_only_by_the_leader_that_has_read_them() -> None:
    half = replica(half="t")
    found = delivery({("t.half", 0): half})
    fronts = found.produce.appender.half_fronts
    assert fronts.find(half.tp) is None
    found.on_election("t.half", 0, 3)
    front = found.fronts["t.half", 0][0]
    assert isinstance(front, HalfFront) and fronts.find(half.tp) is None, "not read yet"
    front.state = FrontState.ACTIVE
    assert fronts.find(half.tp) is front
    half.core.leader_epoch = 4
    assert fronts.find(half.tp) is None
    half.core.leader_epoch = 3
    found.on_resignation("t.half", 0)
    assert fronts.find(half.tp) is None


def test_each_target_has_its_topic() -> None:
    half, client = replica(half="t"), Client()
    found = delivery({("t.half", 0): half}, client)
    for target in FrontTarget:
        found.send(half, target, b"", lambda error, now: None)
    assert client.sent == ["t", "t.half.expired", "t.half.check"]


def test_half_messages_continue_when_a_decision_is_stable() -> None:
    half = replica(half="t")
    found = delivery({("t.half", 0): half})
    found.on_election("t.half", 0, 3)
    front, ticks = found.fronts["t.half", 0][0], list[Now]()
    assert isinstance(front, HalfFront)
    front.tick = ticks.append  # type: ignore[method-assign]
    found.replica_manager.purgatory.check("hw")
    TIMERS.pop()[1](Now(1, 1))
    assert not ticks, "there is no decision"
    header = records.peek(records.build([Record(0, 1, b"k", b"v")]))
    front.on_appended([HalfRecord(b"id", HalfDecision.COMMIT)], header, 0)
    half.last_stable = lambda: 1
    found.replica_manager.purgatory.check("hw")
    assert not ticks, "the caller may be in the middle of a change"
    TIMERS.pop()[1](Now(1, 1))
    assert ticks == [Now(1, 1)]
    found.replica_manager.purgatory.check("hw")
    found.on_resignation("t.half", 0)
    TIMERS.pop()[1](Now(2, 2))
    found.replica_manager.purgatory.check("hw")
    assert len(ticks) == 1 and not TIMERS, "another broker leads the partition"


def test_delayed_messages_wait_for_the_tick() -> None:
    found = delivery({("t.delay", 0): replica("t")})
    found.on_election("t.delay", 0, 3)
    found.replica_manager.purgatory.check("hw")
    assert not TIMERS
