"""The loads of `combined` whose topics have another way to store or to acknowledge records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC
from tests.simulation import tiered_tails
from tests.simulation.checkers import History
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import Cluster
from tests.simulation.combined_loads import RETENTIONS, Load
from tests.simulation.earliest import FromEarliest
from tests.simulation.earliest import verify as judge_passes
from tests.simulation.keys import (
    CHANGES,
    COMPACTED,
    INDEX,
    PLACES,
    PLAIN,
    KeyProducer,
    KeySearcher,
    KeyWorld,
    all_indexed,
    indexes_agree,
)
from tests.simulation.keys_remote import REMOTE, RemoteKeyWorld
from tests.simulation.majority import MAJORITY
from tests.simulation.pipelined import PipelinedProducer
from tests.simulation.run import LOGS, RECOVERY_S_MAX, leader_replica
from tests.simulation.world import World


class MajorityLoad(Load):
    """A topic with majority acknowledgements, with retention and growth. The rules are in `majority.MajorityChecker`."""

    kept = ("votes",)

    def create(self) -> None:
        self.topic("votes", 2, **MAJORITY, **self.world.rng.choice(LOGS))

    def begin(self, duration_s: float) -> None:
        places = [("votes", 0), ("votes", 1)]
        self.clients: list[Any] = [Producer(self.cluster, self.history, f"v{p}", t, p, 500) for t, p in places]
        self.clients.append(PipelinedProducer(self.cluster, self.history, "vq", places, 500))
        self.readers = [Reader(self.cluster, self.history, f"vr{p}", t, p) for t, p in places]

        def on_partitions_added(name: str, count: int) -> None:
            if not self.clients[0].stopped:
                self.clients.append(Producer(self.cluster, self.history, f"v{count - 1}", name, count - 1, 500))
                self.readers.append(Reader(self.cluster, self.history, f"vr{count - 1}", name, count - 1))

        self.operate_topics(duration_s, self.kept, (3,), on_partitions_added, {"votes": RETENTIONS})

    def finish(self) -> None:
        for reader in self.readers:
            end = leader_replica(self.cluster, reader.topic, reader.partition).core.high_watermark
            self.await_offset(reader, end)
            reader.stopped = True

    def verify(self) -> None:
        self.history.verify(self.cluster, self.kept)


def await_remote_metadata(cluster: Cluster) -> None:
    cluster.run_until(
        lambda: cluster.image.topic_named(REMOTE_LOG_METADATA_TOPIC) is not None, 30, "the metadata topic"
    )
    cluster.run_until(cluster.is_settled, 30, "its replicas")


class TieredLoad(Load):
    """A topic with tiered storage, whose partitions also move without their old data. No record is in neither tier (`tiered_tails.BothTiersWatch`), and
    readers find all records in both."""

    settings = tiered_tails.SETTINGS
    kept = moved = tiered = ("cold",)
    different = (REMOTE_LOG_METADATA_TOPIC,)
    places = (("cold", 0), ("cold", 1))

    def create(self) -> None:
        self.topic("cold", 2, 2, **{**tiered_tails.TOPIC, "segment_bytes": "1024", "local_retention_bytes": "2000"})
        tiered_tails.BothTiersWatch(self.cluster, self.kept)

    def begin(self, duration_s: float) -> None:
        await_remote_metadata(self.cluster)
        self.clients = [Producer(self.cluster, self.history, f"c{p}", t, p, 300) for t, p in self.places]
        self.passes = [FromEarliest(self.cluster, f"ce{i}", place) for i, place in enumerate(self.places)]

    def finish(self) -> None:
        judge_passes(self.cluster, self.passes, set(self.places))

    def verify(self) -> None:
        self.history.verify(self.cluster, self.kept)


class KeyLoad(Load):
    """Look-ups by key. In half of the worlds the plain topic has tiered storage. The rules are in `keys` and `keys_remote`."""

    def __init__(self, world: World, history: History, clock_error_ms: int) -> None:
        super().__init__(world, history, clock_error_ms)
        self.remote = world.chance(0.5)
        self.keys: KeyWorld = RemoteKeyWorld(world) if self.remote else KeyWorld(world)
        self.settings = REMOTE if self.remote else {}
        self.different = (COMPACTED, PLAIN, REMOTE_LOG_METADATA_TOPIC) if self.remote else (COMPACTED,)

    @contextmanager
    def context(self) -> Iterator[None]:
        with self.keys.watch(self.history).patch_lookups():
            yield

    def create(self) -> None:
        small = {"segment_bytes": "2048", "index_interval_bytes": self.world.rng.choice(("128", "4096")), **INDEX}
        self.topic(PLAIN, 1, **{**self.keys.plain_configs(), **small})
        self.topic(COMPACTED, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.05", **small)

    def begin(self, duration_s: float) -> None:
        cluster, keys = self.cluster, self.keys
        keys.on_topics_created(cluster)
        self.clients = [KeyProducer(cluster, self.history, f"kp{i}{n}", p) for i, p in enumerate(PLACES) for n in "ab"]
        self.searchers = [
            KeySearcher(cluster, f"ks{i}", p, deletes=0.02 * (1 - i), on_delete=keys.on_delete)
            for i, p in enumerate(PLACES)
        ]
        self.operate_topics(duration_s, (), (), lambda name, count: None, {PLAIN: CHANGES, COMPACTED: CHANGES})

    def on_faults_ended(self) -> None:
        for searcher in self.searchers:
            searcher.deletes = 0
        for name in (PLAIN, COMPACTED):
            self.cluster.change_topic(name, **INDEX)

    def finish(self) -> None:
        cluster = self.cluster
        cluster.run_until(lambda: all_indexed(cluster), RECOVERY_S_MAX, "an index of each segment on each broker")
        indexes_agree(cluster, self.keys.scan)
        self.keys.ask_all(cluster, self.searchers)

    def verify(self) -> None:
        if isinstance(self.keys, RemoteKeyWorld):
            assert self.keys.committed.archive is not None
            self.keys.committed.archive.check_logs()
