"""`python -m tests.simulation --seed 1 --n 200`: runs seeds one after another. Stops at the first seed that breaks a rule and prints how to repeat it.

A failing seed is printed with its commit and run again with fewer and fewer faults: the same world up to the n-th fault, then no more faults.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.run import Live, Outcome

STORY_LINES = 60
SAY_EVERY = 50


def commit() -> str:
    """The versions with which a seed repeats the same run."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + (
        " with changes" if git("status", "--porcelain") else ""
    )


def shortest_prefix(outcome: Outcome, life: Live | None = None) -> tuple[int, Outcome] | None:
    """(faults, outcome) of the shortest prefix of this world's faults that breaks a rule when no fault follows."""
    from tests.simulation.run import run

    for faults in range(outcome.faults):
        shorter = run(outcome.seed, faults_max=faults, life=life)
        if shorter.violation is not None:
            return faults, shorter
    return None


def report(outcome: Outcome, *, story: bool, life: Live | None = None, world: str = "") -> None:
    again = f"PYTHONHASHSEED=0 python -m tests.simulation --seed {outcome.seed} --story"
    if world:
        again += f" {world}"
    found = shortest_prefix(outcome, life)
    reported = outcome
    if found is not None:
        faults, reported = found
        again += f" --faults {faults}"
    if not story:
        print("\n".join(reported.story[-STORY_LINES:]))
    print(f"\nseed {outcome.seed} at commit {commit()}: {outcome.violation}")
    if found is None:
        print(f"only with all of its {outcome.faults} faults")
    else:
        print(f"after the first {found[0]} of its {outcome.faults} faults already: {reported.violation}")
    print(f"again: {again}", flush=True)


class Tally:
    def __init__(self) -> None:
        self.began = time.monotonic()
        self.times: Counter[str] = Counter()
        self.seeds: Counter[str] = Counter()
        self.done = self.acks = self.faults = 0
        self.bad: list[int] = []

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        self.acks += outcome.acks
        self.faults += outcome.faults
        self.times += outcome.reached
        self.seeds.update(k for k, v in outcome.reached.items() if v)
        if outcome.violation is not None:
            self.bad.append(outcome.seed)

    def summary(self) -> str:
        from tests.simulation.run import HARD, HARD_SHARE

        seconds = time.monotonic() - self.began
        lines = [
            (
                f"{self.done} seeds at commit {commit()} in {seconds:.0f} s ({seconds / max(1, self.done):.2f} s each): {self.faults} faults, "
                f"{self.acks} acknowledged writes; violations: {self.bad or 'none'}"
            ),
            f"{'hard state':40} seeds times",
        ]
        for state in HARD:
            few = (
                "" if self.seeds[state] >= HARD_SHARE * self.done else f"  fewer than one seed in {1 / HARD_SHARE:.0f}"
            )
            lines.append(f"{state:40} {self.seeds[state]:5} {self.times[state]:5}{few}")
        lines.append(f"{'also reached':40}")
        lines += [f"{s:40} {n:5} {self.times[s]:5}" for s, n in sorted(self.seeds.items()) if s not in HARD]
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--story", action="store_true", help="print the story of each seed")
    parser.add_argument("--faults", type=int, default=None, help="inject no faults after that many")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument(
        "--fingerprints", action="store_true", help="print one line per seed: equal lines are equal runs"
    )
    parser.add_argument("--compiled", action="store_true", help="with the compiled modules of the request path")
    worlds = parser.add_mutually_exclusive_group()
    worlds.add_argument("--transactions", action="store_true", help="worlds of transactions instead of ordinary ones")
    worlds.add_argument("--rolling", action="store_true", help="worlds of a group whose members speak both protocols")
    worlds.add_argument("--tails", action="store_true", help="worlds in which partitions move without their old data")
    worlds.add_argument("--tail-transactions", action="store_true", help="the same, under transactions")
    worlds.add_argument("--handovers", action="store_true", help="worlds of tails that are handed over early")
    worlds.add_argument("--handover-transactions", action="store_true", help="the same, under transactions")
    worlds.add_argument("--tiered-tails", action="store_true", help="worlds of tails of topics with tiered storage")
    worlds.add_argument("--tiered-tail-transactions", action="store_true", help="the same, under transactions")
    worlds.add_argument("--delays", action="store_true", help="worlds of delayed messages")
    worlds.add_argument("--delay-changes", action="store_true", help="the same, with growth and changes of retention")
    worlds.add_argument("--halves", action="store_true", help="worlds of half messages")
    worlds.add_argument(
        "--half-changes", action="store_true", help="the same, with growth, retention and late repeated records"
    )
    worlds.add_argument("--routes", action="store_true", help="worlds of routes")
    worlds.add_argument("--route-growth", action="store_true", help="worlds of routes whose source grows")
    worlds.add_argument(
        "--route-changes", action="store_true", help="worlds of routes with transactions, retention and growth"
    )
    worlds.add_argument(
        "--route-keys", action="store_true", help="worlds of a route with other keys, from a compacted source"
    )
    worlds.add_argument("--route-permissions", action="store_true", help="worlds of a route whose principal loses ACLs")
    worlds.add_argument("--shares", action="store_true", help="worlds of a share group")
    worlds.add_argument("--share-letters", action="store_true", help="the same, with dead letters")
    worlds.add_argument(
        "--share-changes", action="store_true", help="the same, with transactions, deleted records, changed offsets"
    )
    worlds.add_argument("--share-growth", action="store_true", help="worlds of a share group of a topic that grows")
    worlds.add_argument(
        "--share-order", action="store_true", help="worlds of a share group that keeps the order of each key"
    )
    worlds.add_argument("--streams", action="store_true", help="worlds of a streams group")
    worlds.add_argument(
        "--log-dirs", action="store_true", help="ordinary worlds with replicas that move between two log directories"
    )
    worlds.add_argument(
        "--busy-cores", action="store_true", help="ordinary worlds with brokers that wait for their cores"
    )
    worlds.add_argument("--combined", action="store_true", help="worlds with all loads and all faults together")
    worlds.add_argument("--majority", action="store_true", help="worlds of topics with majority acknowledgements")
    worlds.add_argument("--keys", action="store_true", help="worlds of look-ups by key")
    worlds.add_argument("--keys-remote", action="store_true", help="the same, with tiered storage")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    from brokerd.compiled import importer

    if arguments.compiled and not importer.install():
        print("no modules are compiled from these sources: make compile", file=sys.stderr)
        return 2
    from tests.simulation import (
        busy_cores,
        combined,
        delay_changes,
        delays,
        exactly_once,
        half_changes,
        halves,
        keys,
        keys_remote,
        log_dirs,
        majority,
        rolling,
        route_changes,
        route_keys,
        route_permissions,
        routes,
        share_changes,
        shares,
        streams,
        tails,
    )
    from tests.simulation.run import run

    lives: dict[str, Live] = {
        "--transactions": exactly_once.live,
        "--rolling": rolling.live,
        "--tails": tails.live,
        "--tail-transactions": tails.live_with_transactions,
        "--handovers": tails.early,
        "--handover-transactions": tails.early_with_transactions,
        "--tiered-tails": tails.tiered,
        "--tiered-tail-transactions": tails.tiered_with_transactions,
        "--log-dirs": log_dirs.live,
        "--busy-cores": busy_cores.live,
        "--combined": combined.live,
        "--majority": majority.live,
        "--keys": keys.live,
        "--keys-remote": keys_remote.live,
        "--delays": delays.live,
        "--delay-changes": delay_changes.live,
        "--halves": halves.live,
        "--half-changes": half_changes.live,
        "--routes": routes.live,
        "--route-growth": routes.live_with_growth,
        "--route-changes": route_changes.live,
        "--route-keys": route_keys.live,
        "--route-permissions": route_permissions.live,
        "--shares": shares.live,
        "--share-letters": shares.live_with_letters,
        "--share-changes": share_changes.live,
        "--share-growth": shares.live_with_growth,
        "--share-order": shares.live_with_key_order,
        "--streams": streams.live,
    }
    world = next((w for w in lives if getattr(arguments, w[2:].replace("-", "_"))), "")
    life = lives.get(world)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally = Tally()
    try:
        for seed in range(arguments.seed, arguments.seed + arguments.n):
            outcome = run(seed, faults_max=arguments.faults, life=life)
            tally.add(outcome)
            if arguments.story:
                print("\n".join(outcome.story))
            if arguments.n == 1 or arguments.fingerprints:
                print(f"seed {seed}: {outcome.fingerprint}, {outcome.events} events, {outcome.acks} acknowledged")
            if outcome.violation is not None:
                report(outcome, story=arguments.story, life=life, world=world)
                if not arguments.keep_going:
                    break
            if tally.done % SAY_EVERY == 0 and arguments.n > tally.done:
                print(f"{tally.done} seeds, violations: {tally.bad or 'none'}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(tally.summary())
    return 1 if tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
