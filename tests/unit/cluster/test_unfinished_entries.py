"""Entries that hold part of a decision: `Image.apply_entry`."""

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
    Record,
    TopicCreated,
    TopicReady,
    entry_hash,
)

TOPIC = UUID(int=7)


def write(image: Image, *records: Record, epoch: int = 1, unfinished: bool = False) -> tuple[Record, ...]:
    """Through its bytes, as readers get it."""
    data = Entry(image.seq + 1, epoch, "token", image.chain_hash, records, unfinished).encode()
    entry = Entry.decode(data)
    assert entry.unfinished is unfinished
    return image.apply_entry(entry, entry_hash(data))


def up(broker_id: int) -> BrokerUp:
    return BrokerUp(broker_id, 10, f"uuid-{broker_id}", "h", 1)


def test_nothing_counts_before_the_last_entry() -> None:
    image = Image()
    write(image, ClusterCreated("c"))
    assert write(image, up(1), unfinished=True) == ()
    assert write(image, up(2), unfinished=True) == ()
    assert image.seq == 3 and not image.brokers
    assert write(image, up(3)) == (up(1), up(2), up(3))
    assert sorted(image.brokers) == [1, 2, 3] and not image.held


def test_what_a_deposed_controller_did_not_finish_never_happened() -> None:
    image = Image()
    write(image, ClusterCreated("c"), up(1))
    write(image, BrokerDown(1, 10), unfinished=True)
    assert write(image, up(2), epoch=2) == (up(2),)
    assert image.alive(1) and image.alive(2)


def test_a_decision_without_its_beginning_is_refused() -> None:
    """A reader that saw only the last entry: records name a topic that was never created."""
    image = Image()
    with pytest.raises(MetadataError, match="has not created"):
        write(image, TopicReady(TOPIC))


def test_it_counts_in_the_order_it_was_written() -> None:
    image = Image()
    write(image, TopicCreated(TOPIC, "t", 1, {}, 0), unfinished=True)
    write(image, TopicReady(TOPIC))
    assert image.topics[TOPIC].ready
