"""Worlds of a streams group (KIP-1071): members of three processes divide the tasks of a stateful application, with standby tasks, under the faults of `run`.
`python -m tests.simulation --streams`. Sessions and delays are short. In every second world the source topic gets more partitions.

The rules are in `streams_members`. In addition, after the faults each task is active at exactly one member, and no committed offset is lost.
Does not check the creation of internal topics and offsets in transactions (tests/cluster, tests/foreign).
"""

from __future__ import annotations

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC
from tests.simulation.checkers import History, InvariantChecker
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.members import SESSION_MS, Auditor, in_step
from tests.simulation.run import PROBES, RECOVERY_S_MAX
from tests.simulation.streams_members import CHANGELOG, GROUP, SOURCE, OwnedTasks, StreamsMember
from tests.simulation.world import S, World

PARTITIONS, GROWN = 5, 7
PROCESSES = ("p1", "p1", "p2", "p3")
"""The process of each member."""
SETTINGS = {
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "400",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.num.standby.replicas": "1",
    "group.streams.initial.rebalance.delay.ms": "600",
    "group.streams.assignment.interval.ms": "200",
}


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault kinds: {fault_kinds}")
    cluster = Cluster(world, settings=SETTINGS, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
    InvariantChecker(cluster)
    small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
    cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
    cluster.want_topic(SOURCE, PARTITIONS, 3, min_insync_replicas="2")
    cluster.want_topic(CHANGELOG, PARTITIONS, 3, min_insync_replicas="2", cleanup_policy="compact")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    tasks = OwnedTasks()
    places = [(SOURCE, p) for p in range(PARTITIONS)]
    members = [StreamsMember(cluster, tasks, f"m{n}", process, places) for n, process in enumerate(PROCESSES)]
    world.run(world.now_us + 1 * S)
    if world.seed % 2:
        world.after(int(faults_s / 2 * S), lambda: grow_topics(cluster, places))
    FaultInjector(cluster, history, fault_kinds, faults_max).run(faults_s)
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
    for member in members:
        member.calm = True
    cluster.run_until(lambda: in_step([*members]), 30, "all tasks in one epoch")
    for member in members:
        member.stopped = True
    world.run(world.now_us + 4 * S)  # requests in flight are answered now, or not at all
    auditor = Auditor(cluster, places, GROUP)
    cluster.run_until(lambda: auditor.committed is not None, 20, "the committed offsets")
    tasks.verify(auditor.committed or {})
    world.reached["streams group epochs"] += tasks.newest
    history.acks += tasks.acks


def grow_topics(cluster: Cluster, places: list[tuple[str, int]]) -> None:
    """The changelog grows with the source: an operator does that when an application with a changelog gets more tasks. In between the group is not
    ready and has no tasks."""
    for name in (SOURCE, CHANGELOG):
        cluster.grow_topic(name, GROWN)
    places += [(SOURCE, p) for p in range(PARTITIONS, GROWN)]
    cluster.world.reached["source topic grown"] += 1
