"""Levels and versions of the metadata log: unknown content halts the reader, and records are written only if all brokers can read them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

import pytest

from brokerd.cluster import levels, metadata
from brokerd.cluster.image import Image
from brokerd.cluster.levels import LEVEL_MAX, LEVELS_BY_DEFAULT, SUPPORTED_LEVELS
from brokerd.cluster.metadata import (
    BrokerUp,
    ClusterCreated,
    Entry,
    MetadataError,
    MetadataLevelRaised,
    MetadataRecord,
    PartitionChanged,
    TopicDeleted,
    TopicReady,
    entry_hash,
    pack_chunks,
    record_from_json,
    record_to_json,
    unpack_chunks,
)
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation
from brokerd.cluster.znodes import Registration
from controlplane.controller.core import Core
from controlplane.controller.events import AppendMetadata, BrokersSeen, DesiredRead, Elected, Report, Requested
from tests.unit.stored_requests import forwarded_request

TOPIC = UUID(int=7)


@dataclass(frozen=True, slots=True)
class TopicPaused(MetadataRecord):
    """A record of a newer program. Version 2 has a new field."""

    VERSION: ClassVar[int] = 2
    LEVEL: ClassVar[int] = 2
    topic_id: UUID
    since_ms: int = field(default=0, metadata={"version": 2, "level": 3})


@pytest.fixture
def record_type_of_a_later_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(metadata.RECORD_TYPES, "TopicPaused", TopicPaused)


def entry(*records: Mapping[str, Any], **more: object) -> bytes:
    body = {"seq": 1, "epoch": 1, "batch": "b", "previous": metadata.GENESIS_HASH, "records": list(records), **more}
    return zlib.compress(json.dumps(body).encode())


def as_json(record: MetadataRecord, **more: object) -> dict[str, Any]:
    return {**record_to_json(record), **more}


@pytest.mark.parametrize(
    "data",
    [
        entry({"type": "NeverHeardOf", "version": 1}),
        entry(as_json(TopicReady(TOPIC), version=2)),
        entry(as_json(TopicReady(TOPIC), hidden=True)),
        entry(as_json(TopicReady(TOPIC)), atomic=True),
        entry({"type": "TopicDeleted", "version": 1, "topic_id": str(TOPIC)}),
        entry(
            {
                "type": "PartitionChanged",
                "version": 1,
                "topic_id": str(TOPIC),
                "partition": 0,
                "state": {"replicas": [1], "isr": [[1, 5]], "witnesses": [2]},
            }
        ),
    ],
    ids=["type", "version", "field", "entry's key", "a field missing", "field of a state"],
)
def test_entries_of_a_newer_program_halt_the_reader(data: bytes) -> None:
    with pytest.raises(MetadataError):
        Entry.decode(data)


def test_a_snapshot_with_an_unknown_field_is_rejected() -> None:
    chunk = zlib.compress(json.dumps([as_json(TopicDeleted(TOPIC, "t", 3), kept_until=9)]).encode())
    with pytest.raises(MetadataError, match="kept_until"):
        list(unpack_chunks([chunk]))


def test_records_of_level_1_have_the_format_from_before_levels() -> None:
    state = PartitionState((1, 2), (ReplicaIncarnation(1, 5),), leader=1, leader_broker_epoch=5)
    assert record_to_json(PartitionChanged(TOPIC, 0, state)) == {
        "type": "PartitionChanged",
        "version": 1,
        "topic_id": str(TOPIC),
        "partition": 0,
        "state": {
            "replicas": (1, 2),
            "isr": [[1, 5]],
            "leader": 1,
            "leader_incarnation": 5,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "elr": (),
            "last_isr": (),
            "adding": (),
            "removing": (),
            "assignment_generation": 0,
        },
    }
    assert record_to_json(ClusterCreated("c")) == {
        "type": "ClusterCreated",
        "version": 1,
        "cluster_id": "c",
        "metadata_version": 1,
    }
    assert [type(r) for r in Image(cluster_id="c", metadata_version=1).records()] == [ClusterCreated]


def test_a_record_is_written_in_the_lowest_possible_version(record_type_of_a_later_level: None) -> None:
    old, new = TopicPaused(TOPIC), TopicPaused(TOPIC, 5)
    assert record_to_json(old) == {"type": "TopicPaused", "version": 1, "topic_id": str(TOPIC)}
    assert record_to_json(new) == {"type": "TopicPaused", "version": 2, "topic_id": str(TOPIC), "since_ms": 5}
    assert record_from_json(record_to_json(old)) == old and record_from_json(record_to_json(new)) == new
    assert (levels.level_of(old), levels.level_of(new)) == (2, 3)


def test_records_above_the_level_of_the_log_are_rejected(record_type_of_a_later_level: None) -> None:
    ready, paused = TopicReady(TOPIC), TopicPaused(TOPIC)
    assert levels.too_new([ready], 1) is None
    assert levels.too_new([ready, paused], 1) == paused
    assert levels.too_new([paused], 2) is None and levels.too_new([TopicPaused(TOPIC, 5)], 2) is not None
    assert levels.too_new([MetadataLevelRaised(2), paused], 1) is None, (
        "a record that raises the level applies immediately"
    )


def test_an_unsupported_level_in_an_entry_or_a_snapshot_halts_the_reader() -> None:
    image = Image()
    data = entry(as_json(ClusterCreated("c")), as_json(MetadataLevelRaised(LEVEL_MAX + 1)))
    with pytest.raises(MetadataError, match="upgrade"):
        image.apply_entry(Entry.decode(data), entry_hash(data))
    assert image.seq == 0
    chunks = pack_chunks([ClusterCreated("c"), MetadataLevelRaised(LEVEL_MAX + 1)])
    with pytest.raises(MetadataError, match="upgrade"):
        Image.from_records(unpack_chunks(chunks), 1, "h", 1)


def test_the_level_is_in_snapshots() -> None:
    image = Image.from_records([ClusterCreated("c"), MetadataLevelRaised(2)], 5, "h", 1)
    again = Image.from_records(unpack_chunks(pack_chunks(image.records())), 5, "h", 1)
    assert again.metadata_version == 2


def test_a_registration_contains_the_levels_and_the_default_is_level_1() -> None:
    r = Registration(1, "u", "h", 1, None, None, True, "c", 9, metadata_levels=SUPPORTED_LEVELS)
    assert Registration.decode(r.encode(), 9) == r
    body = json.loads(r.encode())
    del body["metadata_levels"]
    assert Registration.decode(json.dumps(body).encode(), 9).metadata_levels == LEVELS_BY_DEFAULT
    body["something_newer"] = 1
    Registration.decode(json.dumps(body).encode(), 9)


# -- the controller ------------------------------------------------------------------------------------------------------
def registration(broker_id: int, spoken: tuple[int, int]) -> Registration:
    return Registration(broker_id, f"uuid-{broker_id}", "h", 1, None, None, True, None, 100 + broker_id, spoken)


def controller(image: Image, *spoken: tuple[int, int]) -> Core:
    core = Core(image, "c")
    core.handle(Elected(1), Now(0, 0))
    core.registrations = {i: registration(i, s) for i, s in enumerate(spoken, 1)}
    return core


def request_level(core: Core, level: int | None) -> tuple[list[MetadataRecord], Any]:
    payload = {} if level is None else {"level": level}
    effects = core.handle(Requested(forwarded_request("r", -1, -1, "raise_metadata_level", payload)), Now(0, 0))
    out = next(e for e in effects if isinstance(e, AppendMetadata)).records
    return [r for r in out if isinstance(r, MetadataLevelRaised)], out[-1]


def at_level(level: int) -> Image:
    return Image(seq=1, cluster_id="c", metadata_version=level)


def test_the_level_is_raised_when_every_registered_broker_reads_it() -> None:
    raised, response = request_level(controller(at_level(1), SUPPORTED_LEVELS, LEVELS_BY_DEFAULT), LEVEL_MAX)
    assert raised == [] and response.error == 95 and "[2]" in response.message
    raised, response = request_level(controller(at_level(1), SUPPORTED_LEVELS, SUPPORTED_LEVELS), None)
    assert raised == [MetadataLevelRaised(LEVEL_MAX)] and response.error == 0


def test_the_level_is_not_lowered_and_not_raised_above_the_controllers_own() -> None:
    assert request_level(controller(at_level(2), SUPPORTED_LEVELS), 1)[1].error == 95
    assert request_level(controller(at_level(2), (1, 99)), LEVEL_MAX + 1)[1].error == 95
    raised, response = request_level(controller(at_level(2), SUPPORTED_LEVELS), 2)
    assert raised == [] and response.error == 0


def test_a_new_cluster_starts_at_the_highest_level_that_all_brokers_read() -> None:
    def image_after_first_election(*spoken: tuple[int, int]) -> Image:
        core = Core(Image(), "c")
        core.handle(Elected(1), Now(0, 0))
        core.handle(DesiredRead(complete=True), Now(0, 0))
        seen = BrokersSeen({i: registration(i, s) for i, s in enumerate(spoken, 1)})
        (effect,) = [e for e in core.handle(seen, Now(0, 0)) if isinstance(e, AppendMetadata)]
        assert levels.too_new(effect.records, 0) is None
        return Image.from_records(effect.records, 1, "h", 1)

    assert image_after_first_election().metadata_version == LEVEL_MAX
    assert image_after_first_election(SUPPORTED_LEVELS, SUPPORTED_LEVELS).metadata_version == LEVEL_MAX
    assert image_after_first_election(SUPPORTED_LEVELS, LEVELS_BY_DEFAULT).metadata_version == 1


def test_a_broker_that_cannot_read_the_log_is_rejected_and_reported() -> None:
    core = controller(at_level(2), SUPPORTED_LEVELS)
    effects = core.handle(
        BrokersSeen({1: registration(1, SUPPORTED_LEVELS), 2: registration(2, LEVELS_BY_DEFAULT)}), Now(0, 0)
    )
    up = [r.broker_id for e in effects if isinstance(e, AppendMetadata) for r in e.records if isinstance(r, BrokerUp)]
    assert up == [1]
    assert [(e.kind, str(e.subject)) for e in effects if isinstance(e, Report)] == [("refused", "broker 2")]
