"""Damage reports of a broker: added once, kept until the replica is deleted or repaired."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, TopicCreated
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import CORRUPT, DIVERGED, LOST
from brokerd.membership.controller_outbox import ControllerOutbox
from brokerd.replication import damage_reports
from brokerd.replication.damage_reports import DamageReports

TPS = [TopicPartition(UUID(int=1), i) for i in range(3)]


class Outbox(ControllerOutbox):
    def __init__(self) -> None:
        self.changes = 0

    def mark_changed(self, entry: object) -> None:
        self.changes += 1


def reports() -> tuple[DamageReports, Outbox]:
    outbox = Outbox()
    return DamageReports(outbox), outbox


def report_kinds(it: DamageReports) -> list[tuple[int, str]]:
    return [(r.tp.partition, r.kind) for r in it.reports()]


def test_the_first_report_of_a_replica_stays_and_corruption_replaces_others() -> None:
    it, outbox = reports()
    it.add("t-1", TPS[1], LOST, "a")
    it.add("t-1", TPS[1], DIVERGED, "b")
    assert report_kinds(it) == [(1, LOST)] and outbox.changes == 1 and TPS[1] in it
    it.add("t-1", TPS[1], CORRUPT, "c")
    it.add("t-1", TPS[1], CORRUPT, "d")
    it.add("t-0", TPS[0], LOST, "e")
    assert report_kinds(it) == [(0, LOST), (1, CORRUPT)] and outbox.changes == 3
    it.remove(TPS[1])
    it.remove(TPS[1])
    assert report_kinds(it) == [(0, LOST)] and outbox.changes == 4


def test_a_repaired_replica_loses_its_report_unless_it_is_corrupt() -> None:
    it, _ = reports()
    image = Image()
    image.apply(TopicCreated(TPS[0].topic_id, "t", 1, {}, 3))
    for index, isr in ((0, (1, 2)), (1, (2,)), (2, (1, 2))):
        members = tuple(ReplicaIncarnation(b, 10 + b) for b in isr)
        image.apply(PartitionChanged(TPS[0].topic_id, index, PartitionState((1, 2), members, 2, 12)))
    for tp, kind in zip(TPS, (LOST, LOST, CORRUPT), strict=True):
        it.add("t", tp, kind, "x")
    it.remove_repaired(image, 1)
    assert report_kinds(it) == [(1, LOST), (2, CORRUPT)]


def test_the_number_of_reports_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage_reports, "DAMAGE_REPORTS_MAX", 2)
    it, _ = reports()
    for tp in TPS:
        it.add("t", tp, LOST, "x")
    assert len(it.reports()) == 2
