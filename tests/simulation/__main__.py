"""`python -m tests.simulation --seed 1 --n 200`: seeds one after another; stops at the first that breaks a rule and says how to see it again."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--story", action="store_true", help="tell each seed's story")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    from tests.simulation.run import run

    reached: Counter[str] = Counter()
    seeds_reaching: Counter[str] = Counter()
    began, acks, bad = time.monotonic(), 0, []
    for seed in range(arguments.seed, arguments.seed + arguments.n):
        outcome = run(seed)
        acks += outcome.acks
        reached += outcome.reached
        seeds_reaching.update(k for k, v in outcome.reached.items() if v)
        if arguments.story:
            print("\n".join(outcome.story))
        if arguments.n == 1:
            print(f"seed {seed}: {outcome.fingerprint}, {outcome.events} events, {outcome.acks} acknowledged")
        if outcome.violation is not None:
            bad.append(seed)
            if not arguments.story:
                print("\n".join(outcome.story[-60:]))
            print(
                f"\nseed {seed}: {outcome.violation}\nagain, with its story: PYTHONHASHSEED=0 python -m tests.simulation --seed {seed} --story"
            )
            if not arguments.keep_going:
                break
    seconds = time.monotonic() - began
    done = seed - arguments.seed + 1
    print(
        f"{done} seeds in {seconds:.1f} s ({seconds / done:.2f} s each), {acks} acknowledged records; violations: {bad or 'none'}"
    )
    for state, count in sorted(seeds_reaching.items()):
        print(f"  {state}: in {count} seeds, {reached[state]} times")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
