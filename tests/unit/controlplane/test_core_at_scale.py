"""The controller's core with many partitions: its work grows with what changes, and it rests when nothing does."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.core import Core
from controlplane.controller.events import (
    Appended,
    AppendMetadata,
    BrokersSeen,
    DesiredRead,
    DesiredTopic,
    Elected,
    Event,
    Tick,
)

BROKERS = (1, 2, 3)


class House:
    """A core whose records are applied at once."""

    def __init__(self, partitions: int, replicas: int) -> None:
        self.image = Image(cluster_id="c")
        self.core = Core(self.image, "c")
        self.now = Now(0, 0)
        self.registered = {b: self.registration(b, 100 + b) for b in BROKERS}
        self.hear(Elected(1))
        self.hear(BrokersSeen(dict(self.registered)))
        self.hear(DesiredRead((DesiredTopic(UUID(int=1), "t", 1, False, partitions, replicas, {}),)))

    @staticmethod
    def registration(broker_id: int, incarnation: int) -> Registration:
        return Registration(broker_id, f"uuid-{broker_id}", "h", 1, None, None, True, "c", incarnation)

    def hear(self, event: Event) -> int:
        """Records written for it."""
        written, effects = 0, self.core.handle(event, self.now)
        while appends := [e for e in effects if isinstance(e, AppendMetadata)]:
            for append in appends:
                written += len(append.records)
                for record in append.records:
                    self.image.apply(record)
            effects = self.core.handle(Appended(appends[-1].records), self.now)
        return written

    def bounce(self, broker_id: int) -> float:
        """Seconds of CPU to take in that a broker which went is back."""
        incarnation = self.registered.pop(broker_id).incarnation
        assert self.hear(BrokersSeen(dict(self.registered))) > len(self.image.topics[UUID(int=1)].partitions) / 4
        self.registered[broker_id] = self.registration(broker_id, incarnation + 100)
        began = time.process_time()
        self.hear(BrokersSeen(dict(self.registered)))
        return time.process_time() - began


def test_ten_times_the_partitions_are_about_ten_times_the_work() -> None:
    """Each change of a partition once looked through all that had been decided: 10,000 took half a minute, and the watchdog ended the controller."""
    few, many = House(1_500, 1), House(15_000, 1)
    ratio = min(many.bounce(1) for _ in range(3)) / min(few.bounce(1) for _ in range(3))
    assert ratio < 30, f"{ratio:.0f} times the work"


def test_a_tick_is_no_reason_to_look_when_nothing_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(30, 1)
    del house.registered[1]
    assert house.hear(BrokersSeen(dict(house.registered))) > 0
    looks: list[Now] = []
    monkeypatch.setattr(Core, "_look", lambda self, now: looks.append(now) or [])
    assert any(p.leader < 0 for _, _, p in house.image.each_partition())
    for ms in range(100, 4_000, 100):
        house.now = Now(ms, 0)
        house.hear(Tick())
    assert not looks
    house.now = Now(6_000, 0)
    house.hear(Tick())
    assert looks == [house.now], "once the time has come to put leaders back"


def test_of_several_changes_to_a_partition_in_one_look_the_last_one_is_written() -> None:
    """A broker that comes back under another number before its going was noticed, and must be seated and elected anew."""
    house = House(12, 3)
    house.registered[1] = house.registration(1, 999)
    before = {i: p for _, i, p in house.image.each_partition()}
    written = house.hear(BrokersSeen(dict(house.registered)))
    assert written == 13, "one record for each partition and one for the broker"
    for _, index, state in house.image.each_partition():
        assert state.partition_epoch == before[index].partition_epoch + 1
        assert (1, 999) in state.isr
