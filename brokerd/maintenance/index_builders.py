"""All kinds of index files that a broker builds for its segments. Does not contain: the contents of an index."""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.maintenance.delay_indexing import DelayIndexing
from brokerd.maintenance.key_indexing import KeyIndexing
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.jobs import Runner


def index_builders(
    replica_manager: ReplicaManager, jobs: Runner, clock: Callable[[], Now], bytes_per_s: Callable[[], int]
) -> Callable[[Now], None]:
    """Return the function that starts index builds. The caller must call this function every INDEX_INTERVAL_MS. Each kind reads at most `bytes_per_s`."""
    keys = KeyIndexing(replica_manager, jobs, clock, bytes_per_s)
    delays = DelayIndexing(replica_manager, jobs, clock, bytes_per_s)

    def tick(now: Now) -> None:
        keys.tick(now)
        delays.tick(now)

    return tick
