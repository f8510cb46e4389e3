"""`make moves-matrix`: at each transition of a move, kill -9 of web, worker, active controller, source, target and ZooKeeper, under load.

Four brokers. A verifier (tests/cluster/test_failover.py) checks records while its own topic moves between brokers; in mode `copy` together with a
topic large enough to be interrupted during the copy. Each round requires: the move continues within 10 s of the victim's restart and ends in the
requested state with exactly the new or exactly the old placement; no step happens twice (assignment generations); no throttle is left that a Kafka
client can see; no process died except the victim. Modes (`moves_matrix_modes.py`): copy, tail, early. Does not check: two victims at once, the
producers' latency, random rounds without moves (`make faults`).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kernel import cpu_clock
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_failover import Verifier
from tests.faults.moves_matrix_modes import BROKERS, MODES, Copies
from tests.faults.moves_matrix_observed import Key

VICTIMS = ("worker", "web", "controller", "source", "target", "zookeeper")
RESUMED_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Round:
    moment: str
    victim: str
    back_s: float
    resumed_s: float
    """Seconds since the victim's restart. For a move that then waits only for its operator's cut: since that cut."""
    ended_s: float
    problems: list[str]
    trace: str
    """The observations after the victim's restart, with seconds since then."""


class Matrix:
    def __init__(self, devcluster: DevCluster, mode: Copies) -> None:
        self.devcluster, self.mode, self.seen = devcluster, mode, mode.seen

    def run_round(self, moment: str, victim: str, source: int, target: int) -> Round:
        wait_for(self.seen.is_settled, "a quiet cluster", 90)
        before = self.seen.placements()
        wanted = {
            key: [target if b == source else b for b in replicas]
            for key, (replicas, _) in before.items()
            if source in replicas and target not in replicas
        }
        parts = [{"topic": t, "partition": i, "replicas": to} for (t, i), to in sorted(wanted.items())]
        body = {
            "scope": {"kind": "partitions", "partitions": parts},
            "start": True,
            "throttle_bytes_per_s": self.mode.throttle(wanted),
            "parts_in_flight_max": 4,
            "comment": f"{victim} dies {moment}",
            **self.mode.requested,
        }
        move_id = self.devcluster.post("moves", body)["id"]
        self.mode.reach(move_id, moment)
        name = self.seen.name(victim, source, target)
        pids = wait_for(lambda: name in (p := self.seen.pids()) and p, f"{name} to run")
        killed = time.monotonic()
        os.kill(pids[name], signal.SIGKILL)
        wait_for(lambda: self.seen.is_replaced(name, pids[name]), f"{name} to be restarted", 60)
        back, trace = time.monotonic(), []
        pid = self.seen.pids().get(name)
        if moment == "pausing":
            self._resume(move_id)
            trace.append(f"resumed {time.monotonic() - back:.1f}")
        then = now = self.seen.progress(move_id)
        trace.append(f"first seen {time.monotonic() - back:.1f} {_short(then)}")
        since = back
        if self.mode.waits_for_operator(*then):
            wait_for(lambda: self.mode.let_move_end(move_id) == "cut", "the cut", 150)
            since, then = time.monotonic(), self.seen.progress(move_id)
            trace.append(f"cut {since - back:.1f} {_short(then)}")

        def went_on() -> bool:
            nonlocal now
            now = self.seen.progress(move_id)
            return now != then or now[3] is not None

        wait_for(went_on, f"the move to continue from {then}", 60)
        resumed = time.monotonic()
        used = cpu_clock([pid]) if pid is not None and pid == self.seen.pids().get(name) else 0.0
        trace.append(f"then {resumed - back:.1f} {_short(now)} ({name} has used {used:.1f} s of CPU)")
        self.seen.unless_down(
            lambda: self.devcluster.post(f"moves/{move_id}/throttle", {"throttle_bytes_per_s": 100_000_000})
        )
        done = wait_for(lambda: self._end_of_move(move_id, trace, back), "the move's end", 150)
        ended = time.monotonic()
        problems = self._find_problems(done, moment, before, wanted)
        if resumed - since > RESUMED_SECONDS_MAX:
            problems.append(f"continued after {resumed - since:.1f} s")
        alive = self.seen.pids()
        died = sorted(n for n in pids if alive.get(n) != (pid if n == name else pids[n]))
        problems += [f"{n} died without being a victim ({self.seen.last_words(n)})" for n in died]
        problems += self.mode.check_after_move(move_id, done)
        return Round(moment, victim, back - killed, resumed - since, ended - resumed, problems, "; ".join(trace))

    def _end_of_move(self, move_id: int, trace: list[str], back: float) -> dict[str, Any] | None:
        move, counted = self.seen.move(move_id), count_states(self.seen.states(move_id))
        if not trace[-1].endswith(counted):
            trace.append(f"{time.monotonic() - back:.1f} {counted}")
        if move and move["finished_at"]:
            return move
        if did := self.mode.let_move_end(move_id):
            trace.append(f"{time.monotonic() - back:.1f} {did}")
        return None

    def _resume(self, move_id: int) -> None:
        """Resumes a paused move. A pause lets copies in progress finish: without later partitions the move has ended meanwhile."""
        responses: list[object] = []

        def is_resumed() -> bool:
            response = self.seen.unless_down(lambda: self.devcluster.call("POST", f"moves/{move_id}/resume", {}))
            responses[:] = [response]
            move = self.seen.move(move_id)
            return bool(response and response[0] < 300) or bool(move and move["finished_at"])

        try:
            wait_for(is_resumed, "to resume", 30)
        except AssertionError as e:
            raise AssertionError(f"{e}: {responses}, {self.seen.move(move_id)}") from e

    def _find_problems(
        self, done: dict[str, Any], moment: str, before: dict[Key, tuple[list[int], int]], wanted: dict[Key, list[int]]
    ) -> list[str]:
        problems = []
        state = {"cancelling": "cancelled", "rolling_back": "rolled_back"}.get(moment, "done")
        if done["state"] != state:
            problems.append(f"ended {done['state']}, not {state}: {done['note']}")
        after = self.seen.placements()
        for key, (replicas, generation) in before.items():
            now, steps = after[key][0], after[key][1] - generation
            allowed = (
                [replicas]
                if key not in wanted
                else {"done": [wanted[key]], "rolled_back": [replicas]}.get(state, [replicas, wanted[key]])
            )
            if now not in allowed:
                problems.append(f"{key[0]}-{key[1]} is on {now}, not on {allowed}")
            # One generation for the new placement and one for its end, and the same for the rollback: never more, whichever process died.
            if steps > self.mode.steps[state != "done"] or (key not in wanted and steps):
                problems.append(f"{key[0]}-{key[1]} took {steps} steps")
        problems += [f"a throttle is left: {t}" for t in self.seen.throttles()]
        return problems


def _short(progress: tuple[Any, ...]) -> str:
    state, ended, copied, finished, states = progress
    return f"{state}, {ended} ended, {copied} bytes{', finished' if finished else ''}: {count_states(states)}"


def count_states(states: list[str]) -> str:
    return " ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.moves_matrix", description=__doc__)
    parser.add_argument("--mode", default="copy", choices=MODES)
    parser.add_argument("--moments", nargs="*", metavar="MOMENT", help="default: all moments of the mode")
    parser.add_argument("--victims", nargs="*", default=VICTIMS, choices=VICTIMS)
    parser.add_argument("--rounds", nargs="*", default=[], metavar="VICTIM:MOMENT", help="these instead")
    parser.add_argument("--times", type=int, default=1, help="repetitions of all rounds")
    parser.add_argument("--seconds", type=float, default=86_400.0, help="start no further round after this time")
    parser.add_argument(
        "--trace", action="store_true", help="print what was seen after the victim's restart in each round"
    )
    arguments = parser.parse_args()
    kind = MODES[arguments.mode]
    chosen = [(v, m) for v in arguments.victims for m in arguments.moments or kind.moments]
    if arguments.rounds:
        chosen = [pair for pair in chosen if ":".join(pair) in arguments.rounds]
        assert len(chosen) == len(arguments.rounds), f"of {arguments.rounds} only {chosen} are known"
    assert all(m in kind.moments for _, m in chosen), f"{arguments.mode} has {kind.moments}"
    began, rounds, failure = time.monotonic(), [], ""
    with tempfile.TemporaryDirectory(prefix="weir-moves-") as folder:
        devcluster = DevCluster(Path(folder), "--brokers", str(BROKERS))
        try:
            kind.fill(devcluster)
            verifier = Verifier(devcluster, "verified", 500)  # type: ignore[arg-type]  # of a cluster it wants the address only
            mode = kind(devcluster, verifier)
            matrix = Matrix(devcluster, mode)
            try:
                verifier.progress("before the first kill", 500)
                source, target = 1, BROKERS
                for victim, moment in chosen * arguments.times:
                    if time.monotonic() - began > arguments.seconds:
                        break
                    if mode.seen.movable_partition_count(
                        kind.weighed, target, source
                    ) > mode.seen.movable_partition_count(kind.weighed, source, target):
                        source, target = target, source
                    row = matrix.run_round(moment, victim, source, target)
                    rounds.append(row)
                    print(
                        f"{victim:>10} {moment:<12} back {row.back_s:5.1f} s, continued after {row.resumed_s:4.1f} s, "
                        f"ended {row.ended_s:5.1f} s later {'; '.join(row.problems) or 'ok'}",
                        flush=True,
                    )
                    if arguments.trace or row.problems:
                        print(f"{'':>10} {row.trace}", flush=True)
                    verifier.progress(f"after {victim} died {moment}", 200)
            except Exception as e:  # the verifier's result is printed and its threads end after any exception
                failure = repr(e)
                print(f"a round failed: {failure}", flush=True)
            count = verifier.count()
        finally:
            devcluster.down()
    slowest = max((r.resumed_s for r in rounds), default=0.0)
    bad = [r for r in rounds if r.problems]
    print(
        f"rounds {len(rounds)}, bad {len(bad)}, slowest to continue {slowest:.1f} s, seconds {time.monotonic() - began:.0f}"
    )
    print(
        f"acked {count.acked}, lost {count.lost}, doubled {count.doubled}, out of order {count.disordered}, "
        f"given up {count.failed}, never delivered {count.undelivered}"
    )
    return (
        1
        if failure or bad or count.lost or count.doubled or count.disordered or count.failed or count.undelivered
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
