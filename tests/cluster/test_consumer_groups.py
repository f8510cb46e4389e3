"""The consumer protocol (KIP-848) with librdkafka's consumers: members join, leave, are killed and lose their coordinator.

The tests compare the members' assignments over time and the records they read: no partition has two owners at once, no record is unread, no
committed offset is lost. Members that a test kills run in their own processes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.group_members import (
    PARTITIONS,
    Member,
    MemberProcess,
    assert_single_owner,
    committed_offsets,
    confirmed_by,
    coordinator_of,
    make_topic,
    produce,
    wait_until_assigned,
)
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
SESSION_MS = 6_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("kip848"), 3, SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def at_rest(cluster: LocalCluster) -> None:
    cluster.until_at_rest()


def test_a_group_rebalances_when_a_member_joins_and_when_it_leaves(cluster: LocalCluster) -> None:
    topic = group = "shared"
    make_topic(cluster, topic)
    values = [f"v{i}" for i in range(300)]
    members = [Member(cluster, group, [topic])]
    try:
        wait_until_assigned(members, topic)
        members.append(Member(cluster, group, [topic]))
        wait_until_assigned(members, topic)
        members.append(Member(cluster, group, [topic]))
        wait_until_assigned(members, topic)
        assert {len(m.owned_partitions) for m in members} == {2}
        produce(cluster, topic, values)
        wait_for(lambda: len([v for m in members for v in m.seen_values]) >= len(values), "everything to be read")
        assert sorted(v for m in members for v in m.seen_values) == sorted(values), (
            "each record one time: no partition moved meanwhile"
        )
        members[1].leave()
        wait_until_assigned([members[0], members[2]], topic)
    finally:
        for member in members:
            member.leave()
    assert_single_owner(members)
    assert [m.errors for m in members] == [[], [], []]


def test_no_commit_is_lost_when_a_member_and_its_coordinator_are_killed(cluster: LocalCluster, tmp_path: Path) -> None:
    topic = group = "killed"
    make_topic(cluster, topic)
    members = [MemberProcess(cluster, group, topic, tmp_path) for _ in range(3)]
    alive = list(members)
    values: list[str] = []

    def all_partitions_owned() -> bool:
        owned = [p for m in alive for p in m.owned_partitions]
        return sorted(owned) == list(range(PARTITIONS)) and all(m.owned_partitions for m in alive)

    def produce_more(count: int = 200) -> None:
        fresh = [f"v{len(values) + i}" for i in range(count)]
        values.extend(fresh)
        produce(cluster, topic, fresh)

    def all_read() -> bool:
        return set(values) <= set().union(*(m.seen_values for m in members))

    victim = coordinator_of(cluster, group)
    try:
        wait_for(all_partitions_owned, "three members to own the topic")
        produce_more()
        wait_for(all_read, "everything to be read")
        alive.remove(members[0])
        members[0].end(signal.SIGKILL)
        wait_for(all_partitions_owned, "two members to own the topic after the third was killed")
        produce_more()
        wait_for(all_read, "everything to be read by two")
        cluster.kill(f"broker-{victim}")
        produce_more()
        wait_for(all_read, "everything to be read with another coordinator")
        assert all_partitions_owned(), "every member kept its assignment when the coordinator died"
        # A group with a new coordinator rebalances like any other.
        members.append(MemberProcess(cluster, group, topic, tmp_path))
        alive.append(members[-1])
        wait_for(all_partitions_owned, "a third member again")
        produce_more()
        wait_for(all_read, "everything to be read by three")
        for member in alive:
            member.end(signal.SIGTERM)
    finally:
        for member in members:
            member.end(signal.SIGKILL)
        if f"broker-{victim}" not in cluster.processes:
            cluster.start_broker(victim)
            wait_for(lambda: cluster.listening(victim), "the killed broker to be back")
    assert_single_owner(members)
    confirmed = confirmed_by(members)
    assert confirmed.keys() == set(range(PARTITIONS))
    assert committed_offsets(cluster, group, topic) == confirmed


def test_a_static_member_gets_its_old_assignment_and_no_other_member_changes(cluster: LocalCluster) -> None:
    topic = group = "static"
    make_topic(cluster, topic)
    first, second = (Member(cluster, group, [topic], **{"group.instance.id": f"i{i}"}) for i in range(2))
    again = None
    try:
        wait_until_assigned([first, second], topic)
        had, other = set(first.owned_partitions), list(second.log)
        first.leave()
        again = Member(cluster, group, [topic], **{"group.instance.id": "i0"})
        wait_until_assigned([again, second], topic)
        assert again.owned_partitions == had
        assert second.log == other, "the other member's assignment did not change"
    finally:
        for member in (first, second, again):
            if member is not None:
                member.leave()


def test_the_broker_resolves_a_pattern_and_finds_topics_created_later(cluster: LocalCluster) -> None:
    make_topic(cluster, "pattern-one")
    member = Member(cluster, "by-pattern", ["^pattern-.*"])
    try:
        wait_for(lambda: {t for t, _ in member.owned_partitions} == {"pattern-one"}, "the existing topic")
        make_topic(cluster, "pattern-two", 2)
        wait_for(
            lambda: {t for t, _ in member.owned_partitions} == {"pattern-one", "pattern-two"},
            "the topic that was created later",
        )
        assert len(member.owned_partitions) == PARTITIONS + 2
    finally:
        member.leave()


def test_an_admin_client_lists_describes_and_deletes_groups_of_both_kinds(cluster: LocalCluster) -> None:
    topic = group = "described"
    make_topic(cluster, topic)
    produce(cluster, topic, ["x"] * PARTITIONS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    members = [
        Member(cluster, group, [topic], **{"enable.auto.commit": True, "auto.commit.interval.ms": 100})
        for _ in range(2)
    ]
    classic = Member(cluster, "described-classic", [topic], **{"group.protocol": "classic"})
    try:
        wait_until_assigned(members, topic)
        wait_until_assigned([classic], topic)
        described = admin.describe_consumer_groups([group])[group].result(30)
        assert (described.state.name, described.type.name, described.partition_assignor) == (
            "STABLE",
            "CONSUMER",
            "uniform",
        )
        assert sorted(len(m.assignment.topic_partitions) for m in described.members) == [3, 3]
        assert {m.target_assignment is not None for m in described.members} == {True}
        listed = {g.group_id: g for g in admin.list_consumer_groups().result(30).valid}
        assert (listed[group].type.name, listed[group].state.name) == ("CONSUMER", "STABLE")
        assert listed["described-classic"].type.name == "CLASSIC"
        with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(30)
    finally:
        for member in (*members, classic):
            member.leave()
    emptied = admin.describe_consumer_groups([group])[group].result(30)
    assert (emptied.state.name, emptied.members) == ("EMPTY", [])
    assert admin.delete_consumer_groups([group])[group].result(30) is None
    assert group not in {g.group_id for g in admin.list_consumer_groups().result(30).valid}


def test_an_empty_group_changes_its_protocol_and_keeps_its_offsets(cluster: LocalCluster) -> None:
    topic = group = "moved"
    make_topic(cluster, topic)
    total = 0
    for protocol in ("classic", "consumer", "classic"):
        produce(cluster, topic, [f"{protocol}-{total}-{i}" for i in range(60)])
        member = Member(cluster, group, [topic], **{"group.protocol": protocol, "enable.auto.commit": True})
        try:
            wait_for(lambda m=member: len(m.seen_values) >= 60, f"the new records, read with protocol {protocol}")  # type: ignore[misc]
        finally:
            member.leave()
        assert len(member.seen_values) == 60, "records committed with the other protocol are not read again"
        assert member.errors == []
        total += 60
