"""Known times of the cluster's history, the state at one of them, and differences between two."""

from __future__ import annotations

from datetime import datetime

import pytest

from brokerd.cluster.metadata import AccessChanged, AccessKind, TopicDeleted
from brokerd.cluster.model import PartitionState
from controlplane.domain.errors import Rejected
from controlplane.models import MetadataImage
from controlplane.selectors import cluster_history
from controlplane.selectors.cluster_history import UnknownTime, moment
from controlplane.selectors.past_states import past_partitions
from tests.unit.controlplane.metadata_log import KeptLog, flights, isr, time_at

pytestmark = pytest.mark.django_db


def leaders(minute: float) -> list[tuple[int | None, list[int]]]:
    return [(p.leader, p.isr) for p in past_partitions(moment(time_at(minute)), topic="flights").rows]


def counts_by_kind(found: cluster_history.ClusterDifference) -> dict[str, int]:
    return {k.kind: k.count for k in found.kinds}


def test_the_difference_of_two_minutes_by_kind() -> None:
    log = KeptLog()
    flights(log)
    found = cluster_history.difference(time_at(5), time_at(15))
    assert counts_by_kind(found) == {"broker": 1, "leader": 1, "isr_shrink": 2}
    assert [(r.subject, r.before, r.after) for r in found.rows if r.kind == "leader"] == [("flights-1", "2", "3")]
    assert found.rows[0].subject == "broker 2" and found.rows[0].after == "down, 127.0.0.1:9002"
    assert counts_by_kind(cluster_history.difference(time_at(15), time_at(25))) == {"broker": 1, "isr_expand": 1}
    assert cluster_history.difference(time_at(20), time_at(25)).total == 0
    assert [
        r.subject for r in cluster_history.difference(time_at(5), time_at(15), kind="isr_shrink", broker=1).rows
    ] == ["flights-0"]
    assert cluster_history.difference(time_at(5), time_at(15), topic="none").total == 0


def test_a_restart_without_a_trace_in_the_state_is_a_difference() -> None:
    log = KeptLog()
    flights(log)
    rows = cluster_history.difference(time_at(5), time_at(19)).rows
    assert [r.after for r in rows if r.kind == "broker"] == ["restarted, broker epoch 202"]


def test_topics_placements_and_access_differ() -> None:
    log = KeptLog()
    flights(log)
    flights_id = log.topics["flights"]
    log.topic(41, "orders", (1,))
    log.state(42, "flights", 0, 1, (1, 2), replicas=(1, 2, 3), adding=(3,))
    log.write(43, AccessChanged(AccessKind.ACL, "a", 1, {"principal": "User:x"}))
    log.write(44, AccessChanged(AccessKind.SCRAM, "alice", 1, {"stored_key": "secret"}))
    log.keep(50)
    rows = {(r.kind, r.subject): (r.before, r.after) for r in cluster_history.difference(time_at(30), time_at(44)).rows}
    assert rows == {
        ("placement", "flights-0"): ("1, 2", "1, 2, 3+"),
        ("topic", "orders"): (None, "1 partition"),
        ("access", "acl a"): (None, '{"principal": "User:x"}'),
        ("access", "scram alice"): (None, "version 1"),
    }
    log.write(51, TopicDeleted(flights_id, "flights", 2))
    log.topic(52, "flights", (1,))
    log.keep(53)
    topics = [
        (r.before, r.after)
        for r in cluster_history.difference(time_at(30), time_at(52), kind="topic", topic="flights").rows
    ]
    assert topics == [("2 partitions", "1 partition, created again")]


def test_single_changes_include_changes_that_were_reverted_between_two_states() -> None:
    log = KeptLog()
    flights(log)
    log.state(31, "flights", 0, 2, (1, 2))
    log.state(32, "flights", 0, 1, (1, 2))
    log.keep(40)
    assert cluster_history.difference(time_at(30), time_at(32)).total == 0
    rows = cluster_history.difference(time_at(30), time_at(32), each=True).rows
    assert [(r.at, r.before, r.after) for r in rows] == [(time_at(31), "1", "2"), (time_at(32), "2", "1")]


def test_a_time_before_the_first_and_after_the_last_entry_is_unknown() -> None:
    flights(KeptLog())
    with pytest.raises(UnknownTime) as early:
        moment(time_at(-1))
    assert early.value.after == time_at(0) and early.value.before is None
    with pytest.raises(UnknownTime) as late:
        moment(time_at(31))
    assert late.value.before == time_at(30)
    assert leaders(30)


def test_a_gap_is_shown_as_a_gap() -> None:
    log = KeptLog()
    flights(log)
    log.state(50, "flights", 0, 2, (1, 2))  # not kept: the console was away
    lost = log.image
    log.recorder = type(log.recorder)()
    log.recorder.image_loaded(lost, int(time_at(60).timestamp() * 1000))
    log.keep(60)
    log.seen_until(70)
    spans = cluster_history.kept_time().spans
    assert [(s.since, s.until) for s in spans] == [(time_at(0), time_at(20)), (time_at(60), time_at(70))]
    with pytest.raises(UnknownTime) as unknown:
        moment(time_at(40))
    assert (unknown.value.before, unknown.value.after) == (time_at(20), time_at(60))
    assert leaders(65)[0] == (2, [1, 2])
    assert counts_by_kind(cluster_history.difference(time_at(15), time_at(65))) == {
        "broker": 1,
        "leader": 1,
        "isr_expand": 1,
    }
    with pytest.raises(Rejected, match="not all kept"):
        cluster_history.difference(time_at(15), time_at(65), each=True)


def test_an_image_shortens_the_replay_and_changes_nothing() -> None:
    log = KeptLog()
    flights(log)
    log.recorder._image_due = True
    log.keep(30)
    assert MetadataImage.objects.count() == 2
    log.state(40, "flights", 0, 2, (1, 2))
    log.keep(41)
    assert leaders(40)[0] == (2, [1, 2]) and leaders(29)[0] == (1, [1, 2]) and leaders(12)[0] == (1, [1])
    assert len(cluster_history.kept_time().spans) == 1


@pytest.mark.parametrize(
    ("values", "field"),
    [({"kind": "nothing"}, "kind"), ({"until": time_at(5)}, "since"), ({"since": time_at(-5)}, "at")],
)
def test_invalid_times_are_rejected(values: dict[str, datetime | str], field: str) -> None:
    flights(KeptLog())
    given = {"since": time_at(5), "until": time_at(15), **values}
    with pytest.raises(Rejected) as rejection:
        cluster_history.difference(**given)  # type: ignore[arg-type]
    assert rejection.value.field == field


def test_the_state_after_many_entries_is_the_image_itself() -> None:
    log = KeptLog()
    log.begin()
    log.topic(1, "t", *[(1 + i % 3, 1 + (i + 1) % 3) for i in range(30)])
    for i in range(1500):
        index, leader = i % 30, 1 + i % 3
        old = log.image.topics[log.topics["t"]].partitions[index]
        state = PartitionState((1, 2, 3), isr((leader,)), leader, 100 + leader, i, old.partition_epoch + 1)
        log.states["t", index] = state
        log.state(2 + i / 100, "t", index, leader, (leader,), replicas=(1, 2, 3))
        if i % 400 == 0:
            log.keep()
    log.keep()
    found = moment(time_at(2 + 1499 / 100))
    assert found.image.topics == log.image.topics and found.image.brokers == log.image.brokers
    assert found.seq == log.image.seq
