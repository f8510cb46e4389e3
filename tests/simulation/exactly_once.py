"""A world of transactions: the same cluster and faults as in `run` with another load. `python -m tests.simulation --transactions`.

Half of the worlds use transactions v1, half transactions v2 (KIP-890 part 2). The invariants are in `transactors.verify`.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from brokerd.replication.replica import Replica
from tests.simulation.checkers import History, InvariantChecker, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.run import PROBES, RECOVERY_S_MAX
from tests.simulation.transactors import (
    COPY,
    LEDGER,
    SOURCE,
    Carrier,
    CommittedReader,
    Ledger,
    Transactional,
    Transactor,
    verify,
)
from tests.simulation.world import S, World

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.cleaner.backoff.ms": "3000",
}
DECIDED_S = 30
"""After all clients have stopped, the last transaction is decided within this time: its time-out, an election, its markers."""


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds = FaultKinds.draw(world)
    kind = world.rng.choice((1, 2))
    world.deliver(f"fault kinds: {fault_kinds}; transactions of kind {kind}")
    cluster = Cluster(world, settings=SETTINGS, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
    InvariantChecker(cluster)
    small = {"segment_bytes": world.rng.choice(("4096", "65536")), "min_cleanable_dirty_ratio": "0.05"}
    cluster.want_topic(LEDGER, 2, 3, min_insync_replicas="2", segment_bytes=world.rng.choice(("8192", "1048576")))
    cluster.want_topic(SOURCE, 1, 3, min_insync_replicas="2")
    cluster.want_topic(COPY, 1, 3, min_insync_replicas="2")
    for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
        cluster.want_topic(name, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    ledger = Ledger()
    source = Producer(cluster, history, "s", SOURCE, 0, 200)
    workers = [Transactor(cluster, ledger, f"t{n}", f"id-{n}", kind) for n in "abc"]
    carrier = Carrier(cluster, ledger, "c", "id-carrier", kind)
    places = [(LEDGER, 0), (LEDGER, 1), (SOURCE, 0), (COPY, 0)]
    readers = [CommittedReader(cluster, ledger, f"r{i}", place) for i, place in enumerate(places)]
    world.run(world.now_us + 1 * S)
    injector = FaultInjector(cluster, history, fault_kinds, faults_max)
    injector.run(faults_s)
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
    before = ledger.commits
    cluster.run_until(lambda: ledger.commits > before + 3, 30, "transactions to continue after the last fault")
    wind_down(cluster, source, [*workers, carrier], readers, places)
    verify(cluster, ledger, readers)
    logs_agree_but_for_compaction(cluster)
    world.reached["transactions committed"] += ledger.commits
    world.reached["transactions aborted"] += ledger.aborts
    world.reached["records carried"] += ledger.carried
    history.acks += ledger.commits


def wind_down(
    cluster: Cluster,
    source: Producer,
    workers: Sequence[Transactional],
    readers: Sequence[CommittedReader],
    places: Sequence[tuple[str, int]],
) -> None:
    """Stops all clients; waits until everything is decided and every reader is at the end."""
    source.stopped = True
    for worker in workers:
        worker.stopped = True
    cluster.run_until(lambda: source.idle, 20, "the last acknowledgement")
    cluster.run_until(lambda: all(w.idle for w in workers), 40, "the last transactions")
    cluster.run_until(
        lambda: all(is_decided(cluster, place) for place in places), DECIDED_S, "every transaction to be decided"
    )
    for reader in readers:
        replica = leader_replica(cluster, *reader.place)
        cluster.run_until(
            lambda r=reader, end=replica.core.high_watermark: r.offset == end,
            20,
            f"{reader.name} at the end",  # type: ignore[misc]
        )
        reader.stopped = True
    cluster.run_until(cluster.level, 20, "equal high watermarks")


def leader_replica(cluster: Cluster, topic: str, index: int) -> Replica:
    state = cluster.image.topic_named(topic)
    assert state is not None
    return cluster.brokers[state.partitions[index].leader].broker.replica_manager.hosted[
        TopicPartition(state.topic_id, index)
    ]


def is_decided(cluster: Cluster, place: tuple[str, int]) -> bool:
    replica = leader_replica(cluster, *place)
    high = replica.core.high_watermark
    return high == replica.log.end_offset == replica.log.last_stable(high)


def logs_agree_but_for_compaction(cluster: Cluster) -> None:
    """Each replica compacts at its own time; logs that are not compacted are equal byte for byte."""
    logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
