"""A leader of a share partition without contact to ZooKeeper and to its followers delivers nothing: its successor may have finished the records. Also: the scene
fails when this rule is removed."""

from __future__ import annotations

import pytest

from brokerd.runtime import coordinators
from brokerd.sharing.delivery import AcknowledgeType
from brokerd.wire.errors import ErrorCode
from tests.simulation.checkers import Violation
from tests.simulation.run import leader_replica
from tests.simulation.shares import TOPIC
from tests.simulation.test_share_waits import LOCKS_MAX, WAIT_MS, Member, filled_cluster
from tests.simulation.world import MS, S

PAUSE_MS, JOINED_S_MAX = 50, 60
"""Pause between fetches, and the limit of the time until a member has its records."""


def fetch_from_a_deposed_leader() -> list[int]:
    """Returns the errors of a fetch from the deposed leader. Raises Violation if it delivers records that its successor has finished."""
    cluster, topic_id = filled_cluster()
    world = cluster.world
    first, second = Member(cluster, "first", topic_id), Member(cluster, "second", topic_id)

    def fetch_until(member: Member, count: int) -> None:
        deadline_us = world.now_us + JOINED_S_MAX * S
        while len(member.held) < count:
            assert world.now_us < deadline_us, f"acquired: {member.held}, errors: {member.errors}"
            member.fetch()
            cluster.run_until(lambda: not member.waits, 2 * WAIT_MS / 1_000, "a response")
            world.run(world.now_us + PAUSE_MS * MS)

    first.join()
    cluster.run_until(lambda: first.joined, 20, "the membership")
    for member in (first, second):  # both sessions are confirmed by the share coordinator
        fetch_until(member, LOCKS_MAX)
        member.acknowledge(LOCKS_MAX, AcknowledgeType.ACCEPT)
        world.run(world.now_us + S)
    deposed = leader_replica(cluster, TOPIC, 0).core.leader
    second.broker = deposed
    node = cluster.brokers[deposed]
    others = [other for broker_id, other in cluster.brokers.items() if broker_id != deposed]
    cluster.network.cut |= {pair for other in others for pair in ((node.name, other.name), (other.name, node.name))}
    node.store.cut()
    cluster.run_until(
        lambda: cluster.image.topics[topic_id].partitions[0].leader not in (deposed, -1), 60, "another leader"
    )
    world.run(world.now_us + 2 * S)

    first.epoch = 0
    fetch_until(first, 1)
    finished = set(first.held)
    first.acknowledge(len(first.held), AcknowledgeType.ACCEPT)
    world.run(world.now_us + S)
    second.errors.clear()
    second.fetch()
    cluster.run_until(lambda: not second.waits, 2 * WAIT_MS / 1_000, "the response of the deposed leader")
    if again := finished & set(second.held):
        raise Violation(f"the deposed leader delivers {len(again)} records that its successor has finished")
    return second.errors


def test_a_deposed_leader_delivers_nothing() -> None:
    assert fetch_from_a_deposed_leader() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_removed_check_of_the_leadership_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "leadership_confirmed", lambda replica_manager, replica, now: True)
    with pytest.raises(Violation, match="that its successor has finished"):
        fetch_from_a_deposed_leader()
