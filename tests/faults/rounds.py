"""`make faults ROUNDS=n`: random processes are killed, frozen and restarted under load, round after round. At the end records are counted.

The verifier knows what an idempotent acks=all producer saw acknowledged (tests/cluster/test_failover.py). Does not check recovery times. SEED
determines the rounds, but processes run in real time: a seed repeats the faults, not the run. It also determines for each controller whether it
detects deaths by probing connections or only by expired sessions.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_failover import Verifier, verifier_with_topic
from tests.faults.scene import freeze, thaw, wait_until_recovered

SETTINGS = {"replica.lag.time.max.ms": "2000", "replica.high.watermark.checkpoint.interval.ms": "500"}

RECORDS_PER_SECOND = 2_000
"""Low: two shared cores also start processes."""


class Rounds:
    def __init__(self, cluster: LocalCluster, verifier: Verifier, dice: random.Random) -> None:
        self.cluster, self.verifier, self.random = cluster, verifier, dice
        self.with_probes = 0
        self.done: dict[str, int] = {}

    def run_round(self) -> str:
        faults = (
            self.kill_a_broker,
            self.kill_two,
            self.kill_all,
            self.freeze_a_broker,
            self.kill_zookeeper,
            self.change_controllers,
        )
        fault = self.random.choices(faults, weights=(6, 2, 1, 3, 1, 2))[0]
        self.with_probes += self.cluster.probes
        time.sleep(self.random.uniform(0, 1.5))  # a random moment of the load
        fault()
        wait_until_recovered(self.cluster)
        self.verifier.progress(f"after {fault.__name__}", 500)
        self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
        return fault.__name__

    def _kill(self, count: int) -> None:
        victims = self.random.sample(sorted(self.cluster.ports), count)
        for i in victims:
            self.cluster.kill(f"broker-{i}")
            time.sleep(self.random.choice((0, 0, 0.3)))
        time.sleep(self.random.choice((0, 0.5, 4)))  # restarted before or after its session expires
        for i in victims:
            self.cluster.start_broker(i)

    def kill_a_broker(self) -> None:
        self._kill(1)

    def kill_two(self) -> None:
        self._kill(2)

    def kill_all(self) -> None:
        self._kill(3)

    def freeze_a_broker(self) -> None:
        name = f"broker-{self.random.choice(sorted(self.cluster.ports))}"
        freeze(self.cluster, name)
        time.sleep(self.random.choice((1, 4, 6)))
        thaw(self.cluster, name)

    def kill_zookeeper(self) -> None:
        self.cluster.kill("zookeeper")
        time.sleep(self.random.choice((0, 5)))
        self.cluster.start_zookeeper()

    def change_controllers(self) -> None:
        self.cluster.stop_controller()
        time.sleep(self.random.choice((0, 2)))
        self.cluster.probes = is_heads(self.random)
        self.cluster.start_controller()
        wait_for(lambda: self.cluster.controller is not None and self.cluster.controller.core.acting, "a controller")


def is_heads(dice: random.Random) -> bool:
    return dice.random() < 0.5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began, dice = time.monotonic(), random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as folder, contextlib.ExitStack() as stack:
        cluster = LocalCluster(Path(folder), 3, SETTINGS)
        cluster.probes = is_heads(dice)
        stack.enter_context(cluster)
        verifier = verifier_with_topic(cluster, RECORDS_PER_SECOND)
        rounds = Rounds(cluster, verifier, dice)
        failure = ""
        try:
            verifier.progress("before the first fault")
            for number in range(1, arguments.rounds + 1):
                name = rounds.run_round()
                print(f"round {number}: {name}, {len(verifier.acked)} acknowledged", flush=True)
        except AssertionError as e:
            failure = str(e)
        count = verifier.count()
    kinds = ", ".join(f"{name} {n}" for name, n in sorted(rounds.done.items()))
    print(
        f"rounds {sum(rounds.done.values())} ({kinds}), {rounds.with_probes} with probes, "
        f"seconds {time.monotonic() - began:.0f}, seed {arguments.seed}"
    )
    print(
        f"acked {count.acked}, lost {count.lost}, doubled {count.doubled}, out of order {count.disordered}, "
        f"given up {count.failed}, never delivered {count.undelivered}"
    )
    if failure:
        print(f"a round failed: {failure}")
    return 1 if failure or count.lost or count.doubled or count.disordered or count.failed or count.undelivered else 0


if __name__ == "__main__":
    sys.exit(main())
