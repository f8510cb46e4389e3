"""`python -m bench.plans`: a plan of every partition of a large seeded cluster: create, save, list, compare, export, import, make a move of it.

Reports elapsed seconds of each, and CPU seconds of this process, which do not grow on a busy machine. The rows are those of `bench.console`.
Not measured: the copying, and PostgreSQL (the database is SQLite, as in a local cluster).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 10.0
"""Budget of a plan for 100,000 partitions that drains one broker."""
PAGE_MS_MAX = 100.0
BROKER = 1


def measure(topics: int, partitions: int) -> list[tuple[str, float, float, float]]:
    """(name of the step, elapsed seconds, CPU seconds, budget in seconds) of each step."""
    from bench.console_rows import BROKERS, DEAD, seed

    seed(topics, partitions, 1)
    from controlplane.domain.scope import DrainScope, parse
    from controlplane.models import Broker, ObservedPartition
    from controlplane.selectors import move_loads, move_parts
    from controlplane.selectors import moves as move_pages
    from controlplane.selectors import plans as pages
    from controlplane.services import moves, plans, rebalance

    Broker.objects.filter(broker_id=DEAD).update(alive=True)
    for first in range(BROKERS):
        # Every partition has a replica on the drained broker, and all its replicas are in sync.
        replicas = [(first + j) % BROKERS + 1 for j in range(3)]
        moved = [*[b for b in replicas if b != BROKER][:2], BROKER]
        ObservedPartition.objects.filter(replicas=replicas).update(replicas=moved, isr=moved, leader=moved[0])
    actor: dict[str, Any] = {"actor": "bench", "comment": "bench"}
    found: list[tuple[str, float, float, float]] = []

    def timed(what: str, act: Callable[[], Any], budget: float = SECONDS_MAX) -> Any:
        began, worked = time.perf_counter(), time.process_time()
        out = act()
        found.append((what, time.perf_counter() - began, time.process_time() - worked, budget))
        return out

    drain = DrainScope(broker=BROKER)
    timed("rebalancing proposed, nothing written", rebalance.propose_changes)
    preview = timed("planned, nothing written", lambda: moves.preview_move(drain))
    plan = timed("planned and stored", lambda: plans.save_plan(drain, **actor))
    assert len(preview.parts) == plan.parts == ObservedPartition.objects.count(), (len(preview.parts), plan.parts)
    file = timed("exported as Kafka's JSON", lambda: "".join(pages.kafka_file(plan.pk)))
    again = timed("imported from Kafka's JSON and stored", lambda: plans.save_plan(parse(json.loads(file)), **actor))
    assert again.digest == plan.digest
    same = timed("compared with another", lambda: pages.difference(plan.pk, again.pk))
    assert same.different == 0
    now = timed("compared with now", lambda: pages.difference(plan.pk, None))
    assert (now.stale, now.different) == (0, plan.parts)
    timed("the list, a page", pages.plan_list, PAGE_MS_MAX / 1000)
    timed("first page of its parts", lambda: pages.plan_parts(plan.pk), PAGE_MS_MAX / 1000)
    timed("last page of its parts", lambda: pages.plan_parts(plan.pk, page=10**6), PAGE_MS_MAX / 1000)
    move = timed("move created", lambda: plans.move_of(plan.pk, plan.digest, **actor))
    timed("started", lambda: moves.start_move(move.pk, **actor))
    from controlplane.services import move_worker

    timed("one pass of the worker", lambda: move_worker.advance_move(move.pk), 1.0)
    timed("the move's parts, a page", lambda: move_parts.move_parts(move.pk), PAGE_MS_MAX / 1000)
    kinds = timed("the kinds of its partitions", lambda: move_loads.move_kinds(move.pk), PAGE_MS_MAX / 1000)
    timed(
        "the move's metrics",
        lambda: (move_pages.move_row(move.pk, kinds), move_loads.part_counts(kinds), move_loads.move_causes(kinds)),
        PAGE_MS_MAX / 1000,
    )
    timed("the move's brokers", lambda: move_loads.move_brokers(kinds), PAGE_MS_MAX / 1000)
    timed("the move's row in a list", lambda: move_pages.move_row(move.pk), PAGE_MS_MAX / 1000)
    timed("cancelled", lambda: moves.cancel_move(move.pk, **actor))
    print(f"{plan.parts} partitions, {len(file) / 1e6:.1f} MB of Kafka's JSON")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10, help="of each topic")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-bench-plans-") as folder:
        os.environ["WEIR_DATA_DIR"] = folder
        rows = measure(options.topics, options.partitions)
    for what, seconds, cpu, budget in rows:
        over = "" if seconds <= budget else f"  over its budget of {budget:g} s"
        print(f"{what:38} {seconds:8.3f} s {cpu:8.3f} s CPU{over}")
    return int(any(seconds > budget for _, seconds, _, budget in rows))


if __name__ == "__main__":
    sys.exit(main())
