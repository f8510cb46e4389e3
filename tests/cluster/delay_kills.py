"""Delayed messages while leaders are killed, longer than in `make test`: `make delay-kills ROUNDS=20`.

Records are due all the time, and the leaders of the front topic and of the topic are killed in turn. Each record arrives once, none before its time.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.cluster.local import LocalCluster
from tests.cluster.test_delayed_messages import DOWN_S, UP_S, check_kills

SECONDS_PER_KILL = UP_S + DOWN_S + 3
"""With the search for the leader and the start of the broker."""
RECORDS_PER_S = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="make delay-kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    records = int(given.kills * SECONDS_PER_KILL * RECORDS_PER_S)
    with tempfile.TemporaryDirectory(prefix="weir-delay-kills-") as folder, LocalCluster(Path(folder), 3) as cluster:
        check_kills(cluster, records, given.kills)
    print(f"{records} records, {given.kills} kills: each arrived once, none early")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
