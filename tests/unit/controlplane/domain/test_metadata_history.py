"""Kept entries and images as bytes."""

from __future__ import annotations

from uuid import uuid4

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataError, PartitionChanged, TopicCreated, TopicDeleted
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from controlplane.domain.metadata_history import (
    StoredEntry,
    image_records,
    pack_entries,
    pack_image,
    unpack_entries,
    unpack_image,
)

TOPIC = uuid4()
STATE = PartitionState((1, 2), (ReplicaIncarnation(1, 101),), 1, 101)
RECORDS = (TopicCreated(TOPIC, "t", 1, {"a": "b"}, 1), PartitionChanged(TOPIC, 0, STATE))


def test_entries_and_images_survive_the_bytes() -> None:
    entries = [StoredEntry(5, 1000, RECORDS), StoredEntry(6, 1001, ())]
    assert unpack_entries(pack_entries(entries)) == entries
    many = [TopicCreated(uuid4(), f"topic-{i}", 1, {"x": "y" * 100}, 1) for i in range(2000)]
    assert list(unpack_image(pack_image(many))) == many
    assert pack_image([]) == b"" and list(unpack_image(b"")) == []


def test_tombstones_are_left_out_of_images() -> None:
    image = Image(cluster_id="c")
    for record in (*RECORDS, TopicDeleted(TOPIC, "t", 2)):
        image.apply(record)
    assert [type(r).__name__ for r in image_records(image.records())] == ["ClusterCreated"]


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:6] + b"x" + d[7:]])
def test_damaged_bytes_are_rejected(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(MetadataError):
        unpack_entries(damage(pack_entries([StoredEntry(1, 1, RECORDS)])))
    with pytest.raises(MetadataError):
        list(unpack_image(damage(pack_image(RECORDS))))
