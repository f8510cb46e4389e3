"""With many partitions a decision takes many entries of the metadata log. If the controller dies in between, the decision has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokerd.cluster import appender
from brokerd.cluster.metadata import BrokerDown, Entry, MetadataRecord, TopicCreated
from brokerd.cluster.znodes import LOG
from tests.simulation.checkers import InvariantChecker, logs_agree
from tests.simulation.cluster import Cluster
from tests.simulation.world import MS, S, World

PARTITIONS = 5


def cluster(seed: int) -> Cluster:
    made = Cluster(World(seed), brokers=3, controllers=1, records_per_entry=1)
    InvariantChecker(made)
    return made


def dies_after(made: Cluster, wrote: type[MetadataRecord]) -> None:
    """Kills the controller as soon as it has written such a record, with more to follow. Its successor starts a while later."""
    seq, world = made.image.seq + 1, made.world
    while True:
        assert world.now_us < 60 * S, f"the controller writes no {wrote.__name__}"
        znode = made.ensemble.znodes.get(f"{LOG}/{seq:020d}")
        if znode is None:
            world.run(world.now_us + MS // 2)
        elif any(isinstance(r, wrote) for r in Entry.decode(znode.data).records):
            break
        else:
            seq += 1
    assert f"{LOG}/{seq + 2:020d}" not in made.ensemble.znodes, "too late: the decision continued"
    made.controllers[0].crash()
    world.run(world.now_us + 500 * MS)
    made.controllers[0].start()


def a_topic_is_created(seed: int) -> None:
    made = cluster(seed)
    made.want_topic("first", 1, 3)
    made.run_until(made.is_settled, 30, "the beginning")
    made.want_topic("t", PARTITIONS, 3)
    dies_after(made, TopicCreated)
    made.run_until(made.is_settled, 60, "everything in step")
    topic = made.image.topic_named("t")
    assert topic is not None
    made.run_until(lambda: topic.ready, 20, "the topic to be shown")
    assert sorted(topic.partitions) == list(range(PARTITIONS))


def a_broker_dies(seed: int) -> None:
    made = cluster(seed)
    made.want_topic("t", PARTITIONS, 3, min_insync_replicas="1")
    made.run_until(made.is_settled, 30, "the beginning")
    made.brokers[1].kill()
    dies_after(made, BrokerDown)
    led = lambda: all(p.leader in (2, 3) and 1 not in p.isr_ids for _, _, p in made.image.each_partition())  # noqa: E731
    made.run_until(led, 60, "leaders among the living")
    made.brokers[1].start()
    made.run_until(made.is_settled, 60, "everything in step")
    logs_agree(made)


CASES = (a_topic_is_created, a_broker_dies)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_an_incomplete_decision_of_a_dead_controller_has_no_effect(case: Callable[[int], None], seed: int) -> None:
    case(seed)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_entries_that_take_effect_one_by_one_leave_an_incomplete_decision(
    case: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the rule the cluster stays in between: no process completes the decision of the dead controller."""
    whole = appender.Write

    def one_by_one(records: Any, deletes: Any = (), unfinished: bool = False) -> appender.Write:
        return whole(records, deletes)

    monkeypatch.setattr(appender, "Write", one_by_one)
    with pytest.raises((AssertionError, RuntimeError)):
        case(1)
