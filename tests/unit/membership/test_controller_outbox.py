"""The outbox to the controller: changed entries are sent once, whole, and with their contents at the time of sending."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster.model import ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import (
    CORRUPT,
    BootstrapProposal,
    DamageReport,
    IsrProposal,
    LogEndReport,
    Proposals,
    ResetProposal,
    StartProposal,
)
from brokerd.membership.controller_outbox import PROPOSALS, ControllerOutbox, OutboxContents
from brokerd.replication.outbox import OutboxEntry

TP = TopicPartition(UUID(int=1), 0)
ISR = IsrProposal(*TP, 3, 4, (ReplicaIncarnation(1, 11),))
RESET = ResetProposal(*TP, 3, ReplicaIncarnation(2, 12))
BOOTSTRAP, START = BootstrapProposal(*TP, 3, 5), StartProposal(*TP, 3, 6)
DAMAGE = DamageReport(TP, CORRUPT, "damaged")
LOG_END = LogEndReport(*TP, 3, 2, 7)
ALL = Proposals([ISR], [BOOTSTRAP], [START], [RESET], [LOG_END])


class Channel:
    """Records what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def propose(self, proposals: Proposals) -> None:
        self.sent.append(proposals)

    def publish_offline_replicas(self, offline: frozenset[TopicPartition]) -> None:
        self.sent.append(offline)

    def publish_damage_reports(self, found: tuple[DamageReport, ...]) -> None:
        self.sent.append(found)


def contents() -> OutboxContents:
    return OutboxContents(
        isr_proposals=lambda: [ISR],
        replica_resets=lambda: [RESET],
        bootstrap_offsets=lambda: [BOOTSTRAP],
        history_starts=lambda: [START],
        damage_reports=lambda: (DAMAGE,),
        offline_replicas=lambda: frozenset({TP}),
        log_ends=lambda: [LOG_END],
    )


@pytest.mark.parametrize("entry", OutboxEntry)
def test_a_changed_entry_is_sent_once(entry: OutboxEntry) -> None:
    outbox, channel = ControllerOutbox(), Channel()
    outbox.send(contents(), channel)
    assert not channel.sent
    outbox.mark_changed(entry)
    outbox.mark_changed(entry)
    outbox.send(contents(), channel)
    expected = {OutboxEntry.OFFLINE_REPLICAS: frozenset({TP}), OutboxEntry.DAMAGE_REPORTS: (DAMAGE,)}
    assert channel.sent == [expected.get(entry, ALL)] and (entry in expected) is (entry not in PROPOSALS)
    outbox.send(contents(), channel)
    assert len(channel.sent) == 1


def test_several_changes_of_proposals_are_one_message_after_the_offline_replicas() -> None:
    outbox, channel = ControllerOutbox(), Channel()
    for entry in OutboxEntry:
        outbox.mark_changed(entry)
    outbox.send(contents(), channel)
    assert channel.sent == [frozenset({TP}), (DAMAGE,), ALL]


def test_a_change_during_sending_is_sent_next_time() -> None:
    outbox, channel = ControllerOutbox(), Channel()

    def offline() -> frozenset[TopicPartition]:
        outbox.mark_changed(OutboxEntry.DAMAGE_REPORTS)
        return frozenset()

    outbox.mark_changed(OutboxEntry.OFFLINE_REPLICAS)
    found = contents()
    changing = OutboxContents(
        found.isr_proposals,
        found.replica_resets,
        found.bootstrap_offsets,
        found.history_starts,
        found.damage_reports,
        offline,
        found.log_ends,
    )
    outbox.send(changing, channel)
    assert channel.sent == [frozenset()] and outbox.changed == {OutboxEntry.DAMAGE_REPORTS}
