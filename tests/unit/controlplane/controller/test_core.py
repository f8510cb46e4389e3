"""The controller's core: its work grows with the changes. It creates a cluster only in an empty ZooKeeper whose database belongs to no cluster."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, MetadataRecord
from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.core import Core
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    ControllerTick,
    DesiredRead,
    DesiredTopic,
    Elected,
    Event,
    LogEntryAppended,
    Report,
)

BROKERS = (1, 2, 3)


class Harness:
    """A core whose records are applied immediately."""

    def __init__(self, partitions: int, replicas: int) -> None:
        self.image = Image(cluster_id="c")
        self.core = Core(self.image, "c")
        self.now = Now(0, 0)
        self.registered = {b: self.registration(b, 100 + b) for b in BROKERS}
        self.deliver(Elected(1))
        self.deliver(BrokersSeen(dict(self.registered)))
        self.deliver(DesiredRead((DesiredTopic(UUID(int=1), "t", 1, False, partitions, replicas, {}),)))

    @staticmethod
    def registration(broker_id: int, broker_epoch: int) -> Registration:
        return Registration(broker_id, f"uuid-{broker_id}", "h", 1, None, None, True, "c", broker_epoch)

    def deliver(self, event: Event) -> int:
        """Handle the event. Returns the number of written records."""
        written, effects = 0, self.core.handle(event, self.now)
        while appends := [e for e in effects if isinstance(e, AppendMetadata)]:
            for append in appends:
                written += len(append.records)
                for record in append.records:
                    self.image.apply(record)
            effects = self.core.handle(LogEntryAppended(appends[-1].records), self.now)
        return written

    def restart_broker(self, broker_id: int) -> float:
        """The CPU seconds of the core for the return of a broker."""
        broker_epoch = self.registered.pop(broker_id).broker_epoch
        assert self.deliver(BrokersSeen(dict(self.registered))) > len(self.image.topics[UUID(int=1)].partitions) / 4
        self.registered[broker_id] = self.registration(broker_id, broker_epoch + 100)
        began = time.process_time()
        self.deliver(BrokersSeen(dict(self.registered)))
        return time.process_time() - began


def test_the_cost_of_a_pass_is_linear_in_the_partitions() -> None:
    """Each change of a partition used to search all earlier decisions of the pass. 10,000 changes took half a minute,
    and the watchdog ended the controller."""
    few, many = Harness(1_500, 1), Harness(15_000, 1)
    ratio = min(many.restart_broker(1) for _ in range(3)) / min(few.restart_broker(1) for _ in range(3))
    assert ratio < 30, f"{ratio:.0f} times the work"


def test_a_tick_without_changes_starts_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(30, 1)
    del harness.registered[1]
    assert harness.deliver(BrokersSeen(dict(harness.registered))) > 0
    looks: list[Now] = []
    monkeypatch.setattr(Core, "_reconcile", lambda self, now: looks.append(now) or [])
    assert any(p.leader < 0 for _, _, p in harness.image.each_partition())
    for ms in range(100, 4_000, 100):
        harness.now = Now(ms, 0)
        harness.deliver(ControllerTick())
    assert not looks
    harness.now = Now(6_000, 0)
    harness.deliver(ControllerTick())
    assert looks == [harness.now], "once the time has come to put leaders back"


def test_only_the_last_of_several_changes_to_a_partition_in_one_pass_is_written() -> None:
    """A broker returns under another incarnation before its failure was detected. It needs a new ISR entry and new elections."""
    harness = Harness(12, 3)
    harness.registered[1] = harness.registration(1, 999)
    before = {i: p for _, i, p in harness.image.each_partition()}
    written = harness.deliver(BrokersSeen(dict(harness.registered)))
    assert written == 13, "one record for each partition and one for the broker"
    for _, index, state in harness.image.each_partition():
        assert state.partition_epoch == before[index].partition_epoch + 1
        assert (1, 999) in state.isr


class CoreHarness:
    def __init__(self, image: Image | None = None) -> None:
        self.core = Core(image or Image(), "drawn")
        self.reports: list[Report] = []

    def deliver(self, event: Event) -> list[MetadataRecord]:
        effects = self.core.handle(event, Now(0, 0))
        self.reports += [e for e in effects if isinstance(e, Report)]
        return [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]


def test_a_cluster_is_created_when_the_database_belongs_to_no_cluster() -> None:
    core_harness = CoreHarness()
    assert core_harness.deliver(Elected(1)) == [] and core_harness.deliver(BrokersSeen({})) == []
    assert core_harness.deliver(ControllerTick()) == [] and core_harness.reports == [], (
        "a response that is still to come is no news for anybody"
    )
    assert core_harness.deliver(DesiredRead(complete=True))[0] == ClusterCreated("drawn")


def test_an_empty_zookeeper_is_reported_and_left_empty_if_the_database_has_a_cluster() -> None:
    core_harness = CoreHarness()
    core_harness.deliver(Elected(1))
    core_harness.deliver(DesiredRead(complete=True, cluster_id="old"))
    assert core_harness.deliver(BrokersSeen({})) == []
    assert [str(r.subject) for r in core_harness.reports] == ["cluster"] and "rebuild" in core_harness.reports[0].text
    assert core_harness.deliver(ControllerTick()) == [] and len(core_harness.reports) == 1, "not at every tick"


def test_each_controller_term_reads_the_database_again() -> None:
    core_harness = CoreHarness()
    core_harness.deliver(Elected(1))
    core_harness.deliver(DesiredRead(complete=True))
    core_harness.deliver(Elected(2))
    assert core_harness.deliver(BrokersSeen({})) == []


def test_an_existing_metadata_log_needs_no_database() -> None:
    image = Image(seq=1, cluster_id="old", metadata_version=1)
    core_harness = CoreHarness(image)
    core_harness.deliver(Elected(1))
    core_harness.deliver(BrokersSeen({}))
    assert core_harness.reports == []
