"""Rebuild the metadata log from backups and the content of the disks. The logs decide which replicas lead. Sequence
numbers and epochs are above all earlier ones. Nothing is dropped without a report."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    BrokerState,
    Now,
    PartitionState,
    ReplicaIncarnation,
    TopicPartition,
    TopicState,
)
from brokerd.cluster.znodes import Registration
from controlplane.controller.core import Core
from controlplane.controller.events import AppendMetadata, BrokersSeen, Elected
from controlplane.disaster.rebuilt import (
    EPOCHS_ABOVE,
    KEEP_EVERYTHING,
    CannotRebuild,
    InspectedReplica,
    LogDirsInspection,
    RebuiltImage,
    rebuild,
    rebuilt_state,
)

T, U = UUID(int=1), UUID(int=2)
OLD = PartitionState(
    (1, 2, 3),
    (ReplicaIncarnation(1, 50), ReplicaIncarnation(2, 51), ReplicaIncarnation(3, 52)),
    leader=1,
    leader_broker_epoch=50,
    leader_epoch=4,
    partition_epoch=9,
)


def copy(broker_id: int, epoch: int, end: int, topic: UUID = T, index: int = 0, name: str = "t") -> InspectedReplica:
    return InspectedReplica(broker_id, name, TopicPartition(topic, index), epoch, end)


def inspection(broker_id: int, *copies: InspectedReplica, **more: object) -> LogDirsInspection:
    return replace(LogDirsInspection(broker_id, "c", 100, True, copies), **more)  # type: ignore[arg-type]


def base(*topics: TopicState) -> Image:
    image = Image(seq=70, chain_hash="h", controller_epoch=6, cluster_id="c", metadata_version=2)
    for t in topics:
        image.topics[t.topic_id], image.topic_ids[t.name] = t, t.topic_id
    return image


def topic(topic_id: UUID = T, name: str = "t", *states: PartitionState) -> TopicState:
    states = states or (OLD,)
    return TopicState(topic_id, name, 3, {"retention.ms": "5"}, len(states), True, dict(enumerate(states)))


def rebuild_image(image: Image, *inspections: LogDirsInspection, **more: object) -> RebuiltImage:
    return rebuild(image, inspections, chain_hash="new", **more)  # type: ignore[arg-type]


# -- who is in sync ------------------------------------------------------------------------------------------------------
def isr(*copies: InspectedReplica, known: PartitionState | None = OLD) -> tuple[int, ...]:
    return rebuilt_state(known, copies, [1, 2, 3]).isr_ids


def test_the_isr_has_the_replicas_with_the_highest_log_end() -> None:
    assert isr(copy(1, 4, 100), copy(2, 4, 250), copy(3, 4, 250)) == (2, 3)


def test_a_later_epoch_counts_more_than_a_longer_log() -> None:
    """The longer log belongs to a leader that was deposed before all replicas acknowledged its records."""
    assert isr(copy(1, 4, 900), copy(2, 5, 120), copy(3, 5, 110)) == (2,)


def test_without_any_log_all_replicas_are_in_the_isr() -> None:
    assert isr() == (1, 2, 3)


def test_an_empty_replica_is_not_in_sync_with_replicas_that_have_records() -> None:
    assert isr(copy(2, 4, 10)) == (2,)


def test_a_broker_with_the_longest_log_becomes_a_replica() -> None:
    state = rebuilt_state(OLD, [copy(1, 4, 100), copy(7, 5, 300)], [1, 2, 3, 7])
    assert state.replicas == (1, 2, 3, 7) and state.isr_ids == (7,)


def test_an_observer_is_not_in_the_isr_if_a_complete_replica_exists() -> None:
    known = replace(OLD, observers=(4,), tail_start=90, log_start_floor=50)
    state = rebuilt_state(known, [copy(1, 4, 100), copy(4, 4, 100)], [1, 2, 3, 4])
    assert (state.isr_ids, state.replicas) == ((1,), (1, 2, 3))
    assert (state.observers, state.tail_start, state.log_start_floor) == ((), -1, -1)
    last = rebuilt_state(known, [copy(4, 4, 100)], [4])
    assert last.isr_ids == (4,), "of all that is left it is the most"


HANDED_OVER = replace(OLD, replicas=(2, 3), isr=OLD.isr[1:], leader=2, leader_broker_epoch=51)
ARCHIVE = {"handover_offset": 500, "handover_epoch": 3, "history_replicas": (1,)}
TAILS = [replace(copy(b, 4, 900), start=500) for b in (2, 3)]


def test_history_replicas_are_kept() -> None:
    state = (
        rebuild_image(
            base(topic(T, "t", replace(HANDED_OVER, **ARCHIVE))),
            inspection(1, copy(1, 2, 600)),
            *(inspection(c.broker_id, c) for c in TAILS),
        )
        .image.topics[T]
        .partitions[0]
    )  # type: ignore[arg-type]
    assert (state.replicas, state.isr_ids, state.history_replicas, state.handover_offset) == ((2, 3), (2, 3), (1,), 500)


def test_rebuild_without_the_inspection_of_a_history_replica_is_rejected() -> None:
    with pytest.raises(CannotRebuild):
        rebuild_image(
            base(topic(T, "t", replace(HANDED_OVER, **ARCHIVE))), *(inspection(c.broker_id, c) for c in TAILS)
        )  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [OLD, HANDED_OVER], ids=["a backup of before", "rows that do not say it"])
@pytest.mark.parametrize("level", [5, 6])
def test_a_log_with_an_earlier_start_becomes_a_history_replica(known: PartitionState, level: int) -> None:
    image = base(topic(T, "t", known))
    image.metadata_version = level
    rebuilt = rebuild_image(image, inspection(1, copy(1, 2, 600)), *(inspection(c.broker_id, c) for c in TAILS)).image
    state = rebuilt.topics[T].partitions[0]
    rebuilt.validate()
    held = (500, (1,)) if level == 6 else (-1, ())
    assert (state.isr_ids, state.handover_offset, state.history_replicas) == ((2, 3), *held)


def test_a_log_with_a_gap_to_the_isr_is_no_history_replica() -> None:
    image = base(topic(T, "t", OLD))
    image.metadata_version = 6
    rebuilt = rebuild_image(image, inspection(1, copy(1, 2, 400)), *(inspection(c.broker_id, c) for c in TAILS)).image
    assert rebuilt.topics[T].partitions[0].history_replicas == ()


def test_an_unknown_partition_has_the_brokers_with_a_log_as_replicas() -> None:
    state = rebuilt_state(None, [copy(3, 1, 10), copy(2, 1, 10)], [1, 2, 3])
    assert state.replicas == (2, 3) and state.isr_ids == (2, 3)


def test_leader_epochs_start_above_those_of_disks_and_base() -> None:
    assert rebuilt_state(OLD, [copy(1, 40, 1)], []).leader_epoch == 40 + EPOCHS_ABOVE
    assert rebuilt_state(OLD, [copy(1, 2, 1)], []).leader_epoch == OLD.leader_epoch + EPOCHS_ABOVE
    assert rebuilt_state(OLD, [], []).partition_epoch > OLD.partition_epoch


@pytest.mark.parametrize("back", [[2], [3], [2, 3]])
def test_the_controller_elects_the_first_isr_member_that_returns(back: list[int]) -> None:
    image = rebuild_image(
        base(topic()), inspection(1, copy(1, 4, 9)), inspection(2, copy(2, 4, 20)), inspection(3, copy(3, 4, 20))
    ).image
    core = Core(image, "unused")
    core.handle(Elected(image.controller_epoch + 1), Now(0, 0))

    def register_brokers(*ids: int) -> None:
        found = {i: Registration(i, f"u{i}", "h", 1, None, None, True, "c", 7 + i, (1, 2)) for i in ids}
        for effect in core.handle(BrokersSeen(found), Now(0, 0)):
            if isinstance(effect, AppendMetadata):
                for record in effect.records:
                    image.apply(record)
                core.in_flight = False

    register_brokers(1)
    assert image.topics[T].partitions[0].leader == -1, "the one that fell behind"
    register_brokers(1, *back)
    state = image.topics[T].partitions[0]
    assert (
        state.leader == back[0] and state.leader_broker_epoch == 7 + back[0] and state.leader_epoch > OLD.leader_epoch
    )
    image.validate()


# -- the whole cluster ---------------------------------------------------------------------------------------------------
def test_entry_numbers_start_above_all_known_ones() -> None:
    new = rebuild_image(
        base(topic()), inspection(1), inspection(2, metadata_seq=9_000), inspection(3), epochs_seen=44, seq_seen=8_000
    ).image
    assert new.seq > 9_000 and new.controller_epoch > 44 and (new.cluster_id, new.metadata_version) == ("c", 2)
    assert rebuild_image(base(topic()), inspection(1), inspection(2), inspection(3), seq_seen=10**7).image.seq > 10**7


def test_configs_generations_and_tombstones_are_kept() -> None:
    image = base(topic())
    image.deleted[U] = 5
    new = rebuild_image(image, inspection(1), inspection(2), inspection(3, copy(3, 1, 5, U, name="gone"))).image
    assert (new.topics[T].configs, new.topics[T].generation, new.deleted) == ({"retention.ms": "5"}, 3, {U: 5})
    assert U not in new.topics, "a tombstone counts, though a disk still holds the topic"


def test_all_other_fields_of_the_base_are_kept() -> None:
    image = base(topic())
    image.broker_configs[-1] = (4, {"log.cleaner.threads": "2"})
    new = rebuild_image(image, inspection(1), inspection(2), inspection(3)).image
    renewed = {"seq", "chain_hash", "controller_epoch", "topics", "topic_ids"}
    for name in Image.__slots__:
        assert name in renewed or getattr(new, name) == getattr(image, name), name
    assert rebuild_image(image, inspection(1), inspection(2), inspection(3)).image.topics is not image.topics


def test_rebuild_without_the_inspection_of_a_broker_is_rejected_unless_the_broker_is_excluded() -> None:
    image = base(topic())
    with pytest.raises(CannotRebuild, match="--without 3"):
        rebuild_image(image, inspection(1, copy(1, 4, 9)), inspection(2, copy(2, 4, 9)))
    new = rebuild_image(image, inspection(1, copy(1, 4, 9)), inspection(2, copy(2, 4, 9)), without=frozenset({3}))
    assert any("broker 3 is omitted" in n and "t-0" in n for n in new.notes)


def test_a_topic_known_only_from_disks_keeps_its_id_and_is_kept_without_retention() -> None:
    found = [copy(2, 1, 50, U, 0, "later"), copy(2, 1, 50, U, 2, "later"), copy(3, 1, 70, U, 2, "later")]
    new = rebuild_image(base(topic()), inspection(1), inspection(2, *found[:2]), inspection(3, found[2]))
    later = new.image.topics[U]
    assert (later.name, later.partition_count, later.configs, later.generation) == ("later", 3, KEEP_EVERYTHING, 0)
    assert later.partitions[2].isr_ids == (3,) and any(n.startswith("later: only the disks") for n in new.notes)


def test_group_offsets_known_only_from_disks_stay_compacted() -> None:
    new = rebuild_image(base(), inspection(2, copy(2, 1, 50, U, 7, GROUP_OFFSETS_TOPIC))).image
    assert new.topics[U].configs == {"cleanup.policy": "compact"} and new.topics[U].partition_count == 8


def test_of_two_topics_with_one_name_the_one_with_records_is_kept_with_a_note() -> None:
    new = rebuild_image(base(topic()), inspection(1, copy(1, 1, 5, U)), inspection(2), inspection(3))
    assert set(new.image.topics) == {U} and any("created again" in n for n in new.notes)
    both = rebuild_image(base(topic()), inspection(1, copy(1, 1, 5, U), copy(1, 4, 9)), inspection(2), inspection(3))
    assert set(both.image.topics) == {T} and any("set aside" in n for n in both.notes)


def test_more_partitions_on_disk_than_were_known_are_kept() -> None:
    new = rebuild_image(base(topic()), inspection(1, copy(1, 1, 5, index=4)), inspection(2), inspection(3))
    assert new.image.topics[T].partition_count == 5 and any("5 partitions were found" in n for n in new.notes)


def test_disks_of_another_cluster_are_rejected() -> None:
    with pytest.raises(CannotRebuild, match="several clusters"):
        rebuild_image(base(topic()), inspection(1), inspection(2, cluster_id="d"), inspection(3))
    with pytest.raises(CannotRebuild, match="cluster d"):
        rebuild_image(base(topic()), *(inspection(i, cluster_id="d") for i in (1, 2, 3)))


def test_unproven_data_has_a_note() -> None:
    new = rebuild_image(
        base(topic()),
        inspection(1, copy(1, 4, 9), trusted=False),
        inspection(2, lost=("t-0",)),
        inspection(3, strays=("/d/x-0-stray",)),
    )
    assert [n.partition(":")[0] for n in new.notes if n.startswith("broker")] == ["broker 1", "broker 2", "broker 3"]
    assert not rebuild_image(base(topic()), *(inspection(i, copy(i, 4, 9)) for i in (1, 2, 3))).notes


def test_an_inspection_of_another_format_is_rejected() -> None:
    whole = {
        "format": 1,
        "broker_id": 1,
        "cluster_id": "c",
        "metadata_seq": 1,
        "trusted": True,
        "lost": [],
        "strays": [],
        "copies": [],
    }
    assert LogDirsInspection.decode(json.dumps(whole)) == LogDirsInspection(1, "c", 1)
    for broken in ({**whole, "format": 2}, {k: v for k, v in whole.items() if k != "trusted"}, []):
        with pytest.raises(ValueError):
            LogDirsInspection.decode(json.dumps(broken))


# -- older copies of directories -----------------------------------------------------------------------------------------
def known_life(life: str) -> Image:
    image = base(topic(T, "t", replace(OLD, replicas=(1, 2), isr=OLD.isr[:2])))
    image.metadata_version = 7
    for b in (1, 2):
        image.brokers[b] = BrokerState(b, 50, f"u{b}", "h", 1, life=f"{life}-{b}")
    return image


def test_an_older_copy_of_a_directory_is_rejected_until_it_is_accepted_by_name() -> None:
    whole = inspection(1, copy(1, 4, 9), lives=("last-1",))
    older = inspection(2, copy(2, 4, 5), lives=("first-2",), metadata_seq=60)
    with pytest.raises(CannotRebuild, match=r"broker 2, reason=directory-older.*--older 2"):
        rebuild_image(known_life("last"), whole, older)
    new = rebuild_image(known_life("last"), whole, older, older=frozenset({2}))
    assert any("broker 2: accepted although reason=directory-older" in n for n in new.notes)
    assert new.image.topics[T].partitions[0].isr_ids == (1,)


def test_the_base_may_be_older_than_the_directories() -> None:
    """The backup or the rows are older than the directory, which contains later entries of the metadata log."""
    inspections = [inspection(b, copy(b, 4, 9), lives=(f"later-{b}",), metadata_seq=71) for b in (1, 2)]
    new = rebuild_image(known_life("last"), *inspections)
    assert {b.broker_id: b.life for b in new.image.brokers.values()} == {1: "later-1", 2: "later-2"}
    assert new.notes == []


def test_a_detected_copy_of_a_directory_is_rejected() -> None:
    inspections = [inspection(1, copy(1, 4, 9)), inspection(2, copy(2, 4, 9), trusted=False, doubt="directory-copied")]
    with pytest.raises(CannotRebuild, match="broker 2, reason=directory-copied"):
        rebuild_image(known_life("last"), *inspections)


def test_an_inspection_without_broker_lives_is_read() -> None:
    body = {
        "format": 1,
        "broker_id": 1,
        "cluster_id": "c",
        "metadata_seq": 1,
        "trusted": True,
        "copies": [],
        "lost": [],
        "strays": [],
    }
    found = LogDirsInspection.decode(json.dumps(body))
    assert (found.doubt, found.lives) == ("", ())
