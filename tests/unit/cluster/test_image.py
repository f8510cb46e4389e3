"""Unfinished entries, which contain part of a decision: `Image.apply_entry`."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    BrokerDown,
    BrokerUp,
    ClusterCreated,
    Entry,
    MetadataError,
    MetadataRecord,
    TopicCreated,
    TopicReady,
    entry_hash,
)

TOPIC = UUID(int=7)


def write(
    image: Image, *records: MetadataRecord, epoch: int = 1, unfinished: bool = False
) -> tuple[MetadataRecord, ...]:
    """Apply an entry after encoding and decoding."""
    data = Entry(image.seq + 1, epoch, "token", image.chain_hash, records, unfinished).encode()
    entry = Entry.decode(data)
    assert entry.unfinished is unfinished
    return image.apply_entry(entry, entry_hash(data))


def broker_up(broker_id: int) -> BrokerUp:
    return BrokerUp(broker_id, 10, f"uuid-{broker_id}", "h", 1)


def test_records_take_effect_with_the_last_entry() -> None:
    image = Image()
    write(image, ClusterCreated("c"))
    assert write(image, broker_up(1), unfinished=True) == ()
    assert write(image, broker_up(2), unfinished=True) == ()
    assert image.seq == 3 and not image.brokers
    assert write(image, broker_up(3)) == (broker_up(1), broker_up(2), broker_up(3))
    assert sorted(image.brokers) == [1, 2, 3] and not image.unfinished


def test_unfinished_entries_of_a_deposed_controller_are_discarded() -> None:
    image = Image()
    write(image, ClusterCreated("c"), broker_up(1))
    write(image, BrokerDown(1, 10), unfinished=True)
    assert write(image, broker_up(2), epoch=2) == (broker_up(2),)
    assert image.alive(1) and image.alive(2)


def test_a_decision_without_its_first_entry_is_rejected() -> None:
    """A reader that has only the last entry: its records refer to an unknown topic."""
    image = Image()
    with pytest.raises(MetadataError, match="unknown topic"):
        write(image, TopicReady(TOPIC))


def test_records_are_applied_in_the_order_of_the_log() -> None:
    image = Image()
    write(image, TopicCreated(TOPIC, "t", 1, {}, 0), unfinished=True)
    write(image, TopicReady(TOPIC))
    assert image.topics[TOPIC].ready
