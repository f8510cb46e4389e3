"""`make moves-eta`: the accuracy of a move's estimated end. Undisturbed moves at several throttles are polled once a second. Of all polls from 10 per
cent on, it counts those whose range contains the true end (goal: four in five).

Does not check: moves whose throttle changes, whose processes die, or into which much is produced meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_moves import ALONE

THROTTLES = (150_000, None, 400_000, 80_000)
SHARE_WANTED = 0.8
Poll = tuple[float, tuple[float, float] | None]


def polls(devcluster: DevCluster, throttle: int | None, target: list[int]) -> tuple[list[Poll], float]:
    """(seconds since the start, the reported range) of each poll from 10 per cent on, and the second of the end."""
    parts = [
        {"topic": "foretold", "partition": p["index"], "replicas": target} for p in devcluster.partitions("foretold")
    ]
    body = {
        "scope": {"kind": "partitions", "partitions": parts},
        "start": True,
        "throttle_bytes_per_s": throttle,
        "parts_in_flight_max": 2,
        "comment": "accuracy of its estimated end",
    }
    move_id = devcluster.post("moves", body)["id"]
    began, out = time.monotonic(), []
    while True:
        at = time.monotonic() - began
        m = devcluster.get(f"moves/{move_id}")
        if m["finished_at"]:
            assert m["state"] == "done", m
            return out, at
        if m["percent"] >= 10:
            out.append((at, tuple(m["eta_s"]) if m["eta_s"] else None))
        assert at < 200, m
        time.sleep(1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.moves_eta", description=__doc__)
    parser.add_argument("--runs", type=int, default=4)
    runs = parser.parse_args().runs
    shares = []
    with tempfile.TemporaryDirectory(prefix="weir-eta-") as folder:
        devcluster = DevCluster(Path(folder))
        try:
            devcluster.topic(
                "foretold",
                partitions=6,
                replication_factor=1,
                configs=ALONE,
                assignment={str(i): [1] for i in range(6)},
            )
            devcluster.fill("foretold", 12_000)  # 6 MB and a little
            wait_for(lambda: all((p["size_bytes"] or 0) > 500_000 for p in devcluster.partitions("foretold")), "sizes")
            for run in range(runs):
                throttle = THROTTLES[run % len(THROTTLES)]
                seen, end = polls(devcluster, throttle, [2 + run % 2] if run % 3 != 2 else [1])
                with_range = [(at, r) for at, r in seen if r is not None]
                hits = sum(1 for at, r in with_range if r[0] <= end - at <= r[1])
                share = hits / len(seen) if seen else 1.0
                shares.append((hits, len(seen)))
                print(
                    f"throttle {throttle}: ended after {end:.0f} s, {len(seen)} polls from 10 % on, {len(with_range)} with a range, {hits} right ({share:.0%})",
                    flush=True,
                )
        finally:
            devcluster.down()
    hits, total = sum(h for h, _ in shares), sum(n for _, n in shares)
    print(f"runs {runs}, polls {total}, right {hits} ({hits / max(1, total):.0%})")
    return 0 if hits >= SHARE_WANTED * total else 1


if __name__ == "__main__":
    sys.exit(main())
