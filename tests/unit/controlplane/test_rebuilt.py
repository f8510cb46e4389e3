"""A new metadata log out of what is known and what the disks hold: the logs decide who leads, numbers begin above all, nobody is forgotten in silence."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now, PartitionState, Seat, TopicPartition, TopicState
from brokerd.cluster.znodes import Registration
from controlplane.controller.core import Core
from controlplane.controller.events import AppendMetadata, BrokersSeen, Elected
from controlplane.disaster.rebuilt import (
    EPOCHS_ABOVE,
    KEEP_EVERYTHING,
    CannotRebuild,
    Copy,
    Rebuilt,
    Survey,
    rebuild,
    seated,
)

T, U = UUID(int=1), UUID(int=2)
OLD = PartitionState(
    (1, 2, 3),
    (Seat(1, 50), Seat(2, 51), Seat(3, 52)),
    leader=1,
    leader_incarnation=50,
    leader_epoch=4,
    partition_epoch=9,
)


def copy(broker_id: int, epoch: int, end: int, topic: UUID = T, index: int = 0, name: str = "t") -> Copy:
    return Copy(broker_id, name, TopicPartition(topic, index), epoch, end)


def survey(broker_id: int, *copies: Copy, **more: object) -> Survey:
    return replace(Survey(broker_id, "c", 100, True, copies), **more)  # type: ignore[arg-type]


def base(*topics: TopicState) -> Image:
    image = Image(seq=70, chain_hash="h", controller_epoch=6, cluster_id="c", metadata_version=2)
    for t in topics:
        image.topics[t.topic_id], image.topic_ids[t.name] = t, t.topic_id
    return image


def topic(topic_id: UUID = T, name: str = "t", *states: PartitionState) -> TopicState:
    states = states or (OLD,)
    return TopicState(topic_id, name, 3, {"retention.ms": "5"}, len(states), True, dict(enumerate(states)))


def made(image: Image, *surveys: Survey, **more: object) -> Rebuilt:
    return rebuild(image, surveys, chain_hash="new", **more)  # type: ignore[arg-type]


# -- who is in sync ------------------------------------------------------------------------------------------------------
def isr(*copies: Copy, known: PartitionState | None = OLD) -> tuple[int, ...]:
    return seated(known, copies, [1, 2, 3]).isr_ids


def test_the_log_that_reaches_farthest_is_the_isr_whatever_the_older_image_says() -> None:
    assert isr(copy(1, 4, 100), copy(2, 4, 250), copy(3, 4, 250)) == (2, 3)


def test_a_later_epoch_counts_more_than_a_longer_log() -> None:
    """The longer one is of a leader that was deposed before its records were acknowledged by all."""
    assert isr(copy(1, 4, 900), copy(2, 5, 120), copy(3, 5, 110)) == (2,)


def test_nobody_has_a_copy_all_are_equally_empty() -> None:
    assert isr() == (1, 2, 3)


def test_an_emptied_replica_is_not_in_sync_with_those_that_hold_records() -> None:
    assert isr(copy(2, 4, 10)) == (2,)


def test_who_holds_the_longest_log_becomes_a_replica_though_nobody_knew() -> None:
    state = seated(OLD, [copy(1, 4, 100), copy(7, 5, 300)], [1, 2, 3, 7])
    assert state.replicas == (1, 2, 3, 7) and state.isr_ids == (7,)


def test_a_copy_of_the_tail_alone_leads_nobody_while_there_is_a_whole_one() -> None:
    known = replace(OLD, observers=(4,), tail_start=90, log_start_floor=50)
    state = seated(known, [copy(1, 4, 100), copy(4, 4, 100)], [1, 2, 3, 4])
    assert (state.isr_ids, state.replicas) == ((1,), (1, 2, 3))
    assert (state.observers, state.tail_start, state.log_start_floor) == ((), -1, -1)
    last = seated(known, [copy(4, 4, 100)], [4])
    assert last.isr_ids == (4,), "of all that is left it is the most"


HANDED_OVER = replace(OLD, replicas=(2, 3), isr=OLD.isr[1:], leader=2, leader_incarnation=51)
ARCHIVE = {"archive_start": 500, "archive_epoch": 3, "holders": (1,)}
TAILS = [replace(copy(b, 4, 900), start=500) for b in (2, 3)]


def test_who_holds_old_records_goes_on_holding_them() -> None:
    state = made(base(topic(T, "t", replace(HANDED_OVER, **ARCHIVE))), survey(1, copy(1, 2, 600)), *(survey(c.broker_id, c) for c in TAILS)).image.topics[T].partitions[0]  # type: ignore[arg-type]  # fmt: skip
    assert (state.replicas, state.isr_ids, state.holders, state.archive_start) == ((2, 3), (2, 3), (1,), 500)


def test_a_holder_that_was_not_surveyed_is_a_refusal() -> None:
    with pytest.raises(CannotRebuild):
        made(base(topic(T, "t", replace(HANDED_OVER, **ARCHIVE))), *(survey(c.broker_id, c) for c in TAILS))  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [OLD, HANDED_OVER], ids=["a backup of before", "rows that do not say it"])
@pytest.mark.parametrize("level", [5, 6])
def test_a_copy_that_begins_earlier_than_those_that_lead_is_kept_for_what_is_older(
    known: PartitionState, level: int
) -> None:
    image = base(topic(T, "t", known))
    image.metadata_version = level
    rebuilt = made(image, survey(1, copy(1, 2, 600)), *(survey(c.broker_id, c) for c in TAILS)).image
    state = rebuilt.topics[T].partitions[0]
    rebuilt.validate()
    held = (500, (1,)) if level == 6 else (-1, ())
    assert (state.isr_ids, state.archive_start, state.holders) == ((2, 3), *held)


def test_a_copy_that_does_not_reach_them_holds_nothing() -> None:
    image = base(topic(T, "t", OLD))
    image.metadata_version = 6
    rebuilt = made(image, survey(1, copy(1, 2, 400)), *(survey(c.broker_id, c) for c in TAILS)).image
    assert rebuilt.topics[T].partitions[0].holders == ()


def test_of_a_partition_that_nobody_knew_the_holders_are_the_replicas() -> None:
    state = seated(None, [copy(3, 1, 10), copy(2, 1, 10)], [1, 2, 3])
    assert state.replicas == (2, 3) and state.isr_ids == (2, 3)


def test_leader_epochs_begin_above_the_disks_and_above_what_was_known() -> None:
    assert seated(OLD, [copy(1, 40, 1)], []).leader_epoch == 40 + EPOCHS_ABOVE
    assert seated(OLD, [copy(1, 2, 1)], []).leader_epoch == OLD.leader_epoch + EPOCHS_ABOVE
    assert seated(OLD, [], []).partition_epoch > OLD.partition_epoch


@pytest.mark.parametrize("back", [[2], [3], [2, 3]])
def test_the_controller_elects_the_first_of_them_that_is_back_and_nobody_else(back: list[int]) -> None:
    image = made(base(topic()), survey(1, copy(1, 4, 9)), survey(2, copy(2, 4, 20)), survey(3, copy(3, 4, 20))).image
    core = Core(image, "unused")
    core.handle(Elected(image.controller_epoch + 1), Now(0, 0))

    def seen(*ids: int) -> None:
        found = {i: Registration(i, f"u{i}", "h", 1, None, None, True, "c", 7 + i, (1, 2)) for i in ids}
        for effect in core.handle(BrokersSeen(found), Now(0, 0)):
            if isinstance(effect, AppendMetadata):
                for record in effect.records:
                    image.apply(record)
                core.in_flight = False

    seen(1)
    assert image.topics[T].partitions[0].leader == -1, "the one that fell behind"
    seen(1, *back)
    state = image.topics[T].partitions[0]
    assert state.leader == back[0] and state.leader_incarnation == 7 + back[0] and state.leader_epoch > OLD.leader_epoch
    image.validate()


# -- the whole -----------------------------------------------------------------------------------------------------------
def test_numbers_begin_above_every_one_that_anybody_saw() -> None:
    new = made(base(topic()), survey(1), survey(2, metadata_seq=9_000), survey(3), epochs_seen=44, seq_seen=8_000).image
    assert new.seq > 9_000 and new.controller_epoch > 44 and (new.cluster_id, new.metadata_version) == ("c", 2)
    assert made(base(topic()), survey(1), survey(2), survey(3), seq_seen=10**7).image.seq > 10**7


def test_configs_generations_and_tombstones_are_kept() -> None:
    image = base(topic())
    image.deleted[U] = 5
    new = made(image, survey(1), survey(2), survey(3, copy(3, 1, 5, U, name="gone"))).image
    assert (new.topics[T].configs, new.topics[T].generation, new.deleted) == ({"retention.ms": "5"}, 3, {U: 5})
    assert U not in new.topics, "a tombstone counts, though a disk still holds the topic"


def test_whatever_else_the_base_knows_goes_over_as_it_is() -> None:
    image = base(topic())
    image.broker_configs[-1] = (4, {"log.cleaner.threads": "2"})
    new = made(image, survey(1), survey(2), survey(3)).image
    renewed = {"seq", "chain_hash", "controller_epoch", "topics", "topic_ids"}
    for name in Image.__slots__:
        assert name in renewed or getattr(new, name) == getattr(image, name), name
    assert made(image, survey(1), survey(2), survey(3)).image.topics is not image.topics


def test_a_broker_that_was_not_surveyed_is_a_refusal_until_it_is_given_up_by_name() -> None:
    image = base(topic())
    with pytest.raises(CannotRebuild, match="--without 3"):
        made(image, survey(1, copy(1, 4, 9)), survey(2, copy(2, 4, 9)))
    new = made(image, survey(1, copy(1, 4, 9)), survey(2, copy(2, 4, 9)), without=frozenset({3}))
    assert any("broker 3 is left out" in n and "t-0" in n for n in new.notes)


def test_a_topic_that_only_disks_know_keeps_its_id_and_loses_no_record_to_retention() -> None:
    found = [copy(2, 1, 50, U, 0, "later"), copy(2, 1, 50, U, 2, "later"), copy(3, 1, 70, U, 2, "later")]
    new = made(base(topic()), survey(1), survey(2, *found[:2]), survey(3, found[2]))
    later = new.image.topics[U]
    assert (later.name, later.partition_count, later.configs, later.generation) == ("later", 3, KEEP_EVERYTHING, 0)
    assert later.partitions[2].isr_ids == (3,) and any(n.startswith("later: only the disks") for n in new.notes)


def test_group_offsets_that_only_disks_know_stay_compacted() -> None:
    new = made(base(), survey(2, copy(2, 1, 50, U, 7, GROUP_OFFSETS_TOPIC))).image
    assert new.topics[U].configs == {"cleanup.policy": "compact"} and new.topics[U].partition_count == 8


def test_of_two_topics_of_one_name_the_one_with_records_counts_and_it_is_said() -> None:
    new = made(base(topic()), survey(1, copy(1, 1, 5, U)), survey(2), survey(3))
    assert set(new.image.topics) == {U} and any("created anew" in n for n in new.notes)
    both = made(base(topic()), survey(1, copy(1, 1, 5, U), copy(1, 4, 9)), survey(2), survey(3))
    assert set(both.image.topics) == {T} and any("set aside" in n for n in both.notes)


def test_more_partitions_on_disk_than_were_known_are_kept() -> None:
    new = made(base(topic()), survey(1, copy(1, 1, 5, index=4)), survey(2), survey(3))
    assert new.image.topics[T].partition_count == 5 and any("5 partitions were found" in n for n in new.notes)


def test_disks_of_another_cluster_are_refused() -> None:
    with pytest.raises(CannotRebuild, match="several clusters"):
        made(base(topic()), survey(1), survey(2, cluster_id="d"), survey(3))
    with pytest.raises(CannotRebuild, match="cluster d"):
        made(base(topic()), *(survey(i, cluster_id="d") for i in (1, 2, 3)))


def test_what_cannot_be_proved_is_said() -> None:
    new = made(
        base(topic()),
        survey(1, copy(1, 4, 9), trusted=False),
        survey(2, lost=("t-0",)),
        survey(3, strays=("/d/x-0-stray",)),
    )
    assert [n.partition(":")[0] for n in new.notes if n.startswith("broker")] == ["broker 1", "broker 2", "broker 3"]
    assert not made(base(topic()), *(survey(i, copy(i, 4, 9)) for i in (1, 2, 3))).notes


def test_a_survey_of_another_format_is_not_guessed_at() -> None:
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
    assert Survey.decode(json.dumps(whole)) == Survey(1, "c", 1)
    for broken in ({**whole, "format": 2}, {k: v for k, v in whole.items() if k != "trusted"}, []):
        with pytest.raises(ValueError):
            Survey.decode(json.dumps(broken))
