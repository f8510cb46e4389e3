"""`make moves-matrix`: at each transition of a move, kill -9 of web, worker, acting controller, source, target and ZooKeeper, under load.

A house of four brokers; a verifier (tests/cluster/test_failover.py) owns the truth about records while its own topic is moved to and fro, together
with one that is large enough to be caught in mid-copy. Each round wants: the move goes on within 10 s of the part's return, ends as asked with
the placement exactly as wanted or exactly as before, no step done twice (assignment generations), no throttle left that a Kafka client could
see. Does not check: two parts killed at once, the producers' latency, `make faults`' random rounds without moves.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_failover import PARTITIONS, Verifier

MOMENTS = ("ordering", "copying", "ending", "pausing", "cancelling", "rolling_back")
VICTIMS = ("worker", "web", "controller", "source", "target", "zookeeper")
BROKERS = 4
CARGO_PARTITIONS = 3
THROTTLE = 250_000
"""Bytes per second and broker: the cargo takes some seconds, long enough to be killed in."""
RESUMED_SECONDS_MAX = 10.0
THROTTLES = (
    "leader.replication.throttled.rate", "follower.replication.throttled.rate", "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)  # fmt: skip

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Round:
    moment: str
    victim: str
    back_s: float
    resumed_s: float
    ended_s: float
    problems: list[str]


class Matrix:
    def __init__(self, house: House, verifier: Verifier) -> None:
        self.house, self.verifier = house, verifier

    # -- what is seen from outside -------------------------------------------------------------------------------------------
    def patient(self, ask: Callable[[], Any]) -> Any:
        """Of a console that may be away: None then."""
        try:
            return ask()
        except (OSError, urllib.error.URLError, AssertionError, ValueError):
            return None

    def placements(self) -> dict[Key, tuple[list[int], int]]:
        """(replicas, assignment generation) of every partition that takes part."""
        return {
            (t, p["index"]): (p["replicas"], p["assignment_generation"])
            for t in ("verified", "cargo")
            for p in self.house.partitions(t)
        }

    def cargo(self, source: int, target: int) -> int:
        """Large partitions that may go this way: after a cancelled move some are here and some there, and without one there is no mid-copy."""
        return sum(t == "cargo" and source in r and target not in r for (t, _), (r, _) in self.placements().items())

    def move(self, move_id: int) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.patient(lambda: self.house.get(f"moves/{move_id}"))
        return found

    def settled(self) -> bool:
        """Everybody is back and in sync, and the console says so from figures of now."""
        o = self.patient(lambda: self.house.get("overview"))
        return bool(o and o["health"]["word"] == "healthy" and (o["age_s"] or 99) < 5 and o["brokers_alive"] == BROKERS)

    def described(self, resource: ConfigResource) -> Any:
        """None where nobody answers yet: a broker that was killed is connected to again after some seconds."""
        try:
            return self.house.admin.describe_configs([resource], request_timeout=10)[resource].result(15)
        except (KafkaException, TimeoutError):
            return None

    def throttles(self) -> list[str]:
        asked = [ConfigResource(ConfigResource.Type.TOPIC, t) for t in ("verified", "cargo")]
        asked += [ConfigResource(ConfigResource.Type.BROKER, str(b)) for b in range(1, BROKERS + 1)]
        left = []
        for resource in asked:
            configs = wait_for(lambda r=resource: self.described(r), f"the configs of {resource.name}", 90)  # type: ignore[misc]
            left += [f"{resource.name} {n}" for n in THROTTLES if n in configs and not configs[n].is_default]
        return left

    # -- one round -----------------------------------------------------------------------------------------------------------
    def one(self, moment: str, victim: str, source: int, target: int) -> Round:
        wait_for(self.settled, "a quiet house", 90)
        before = self.placements()
        wanted = {
            key: [target if b == source else b for b in replicas]
            for key, (replicas, _) in before.items()
            if source in replicas and target not in replicas
        }
        parts = [{"topic": t, "partition": i, "replicas": to} for (t, i), to in sorted(wanted.items())]
        body = {
            "scope": {"kind": "partitions", "partitions": parts}, "start": True, "throttle_bytes_per_s": THROTTLE,
            "parts_in_flight_max": 4, "why": f"{victim} dies {moment}",
        }  # fmt: skip
        move_id = self.house.post("moves", body)["id"]
        self._reach(move_id, moment)
        name = self._name(victim, source, target)
        pid = self.house.pid(name)
        killed = time.monotonic()
        self.house.kill(name)
        wait_for(lambda: self._back(name, pid), f"{name} to be back", 60)
        back = time.monotonic()
        if moment == "pausing":
            self._resume(move_id)
        at_return = self._fingerprint(move_id)
        wait_for(lambda: self._went_on(move_id, at_return), "the move to go on", 60)
        resumed = time.monotonic()
        self.patient(lambda: self.house.post(f"moves/{move_id}/throttle", {"throttle_bytes_per_s": 100_000_000}))
        done = wait_for(lambda: (m := self.move(move_id)) and m["finished_at"] and m, "the move's end", 150)
        ended = time.monotonic()
        problems = self._judge(done, moment, before, wanted)
        if resumed - back > RESUMED_SECONDS_MAX:
            problems.append(f"went on after {resumed - back:.1f} s")
        return Round(moment, victim, back - killed, resumed - back, ended - resumed, problems)

    def _reach(self, move_id: int, moment: str) -> None:
        if moment == "ordering":
            return
        if moment == "ending":
            wait_for(
                lambda: (m := self.move(move_id)) and (m["percent"] > 85 or m["finished_at"]), "the end to be near", 120
            )
            return
        try:
            wait_for(lambda: (m := self.move(move_id)) and (m["bytes_done"] or 0) > 200_000, "a part to be copied", 60)
        except AssertionError as e:
            raise AssertionError(
                f"{e}: {self.move(move_id)}, {self.house.get(f'moves/{move_id}/parts')['rows']}"
            ) from e
        verbs = {"pausing": "pause", "cancelling": "cancel", "rolling_back": "roll_back"}
        if moment in verbs:
            self.house.post(f"moves/{move_id}/{verbs[moment]}", {"why": "matrix"})

    def _resume(self, move_id: int) -> None:
        """A paused move lets the copies under way finish: where nothing waited behind them, it has ended meanwhile."""
        said: list[object] = []

        def resumed() -> bool:
            answer = self.patient(lambda: self.house.call("POST", f"moves/{move_id}/resume", {}))
            said[:] = [answer]
            move = self.move(move_id)
            return bool(answer and answer[0] < 300) or bool(move and move["finished_at"])

        try:
            wait_for(resumed, "to resume", 30)
        except AssertionError as e:
            raise AssertionError(f"{e}: {said}, {self.move(move_id)}") from e

    def _name(self, victim: str, source: int, target: int) -> str:
        if victim == "controller":
            return f"controller-{wait_for(lambda: self.house.get('overview')['controller_id'], 'a controller')}"
        return {"source": f"broker-{source}", "target": f"broker-{target}"}.get(victim, victim)

    def _back(self, name: str, pid: int) -> bool:
        """Another process does its work: alone to run is not enough for a broker (registered) and the web (answers)."""
        if self.house.pids().get(name) in (None, pid):
            return False
        if name.startswith("broker-"):
            rows = self.patient(lambda: self.house.get("brokers")) or []
            return any(b["broker_id"] == int(name[7:]) and b["alive"] for b in rows)
        return self.patient(lambda: self.house.get("overview")) is not None

    def _fingerprint(self, move_id: int) -> tuple[Any, ...]:
        m = wait_for(lambda: self.move(move_id), "the console", 60)
        return m["state"], m["parts_ended"], m["bytes_done"], m["finished_at"]

    def _went_on(self, move_id: int, then: tuple[Any, ...]) -> bool:
        now = self._fingerprint(move_id)
        return now != then or now[3] is not None

    def _judge(
        self, done: dict[str, Any], moment: str, before: dict[Key, tuple[list[int], int]], wanted: dict[Key, list[int]]
    ) -> list[str]:
        problems = []
        state = {"cancelling": "cancelled", "rolling_back": "rolled_back"}.get(moment, "done")
        if done["state"] != state:
            problems.append(f"ended {done['state']}, not {state}: {done['note']}")
        after = self.placements()
        for key, (replicas, generation) in before.items():
            now, steps = after[key][0], after[key][1] - generation
            allowed = [replicas] if key not in wanted else {"done": [wanted[key]], "rolled_back": [replicas]}.get(
                state, [replicas, wanted[key]]
            )  # fmt: skip
            if now not in allowed:
                problems.append(f"{key[0]}-{key[1]} is on {now}, not on {allowed}")
            # There and its end; back and its end: never more, whoever died in between.
            if steps > (2 if state == "done" else 4) or (key not in wanted and steps):
                problems.append(f"{key[0]}-{key[1]} took {steps} steps")
        problems += [f"a throttle is left: {t}" for t in self.throttles()]
        return problems


def house_with_cargo(folder: Path) -> House:
    house = House(folder, "--brokers", str(BROKERS))
    configs = {"min.insync.replicas": "2"}
    house.topic("verified", partitions=PARTITIONS, replication_factor=3, configs=configs)
    # All of it goes the same way: of three replicas on four brokers some would have source and target both, and never move.
    places = {str(i): [1, 2, 3] for i in range(CARGO_PARTITIONS)}
    house.topic("cargo", partitions=CARGO_PARTITIONS, replication_factor=3, configs=configs, assignment=places)
    house.fill("cargo", 9_000)  # 4.5 MB and a little
    wait_for(lambda: all((p["size_bytes"] or 0) > 1_000_000 for p in house.partitions("cargo")), "sizes", 60)
    return house


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.moves_matrix", description=__doc__)
    parser.add_argument("--moments", nargs="*", default=MOMENTS, choices=MOMENTS)
    parser.add_argument("--victims", nargs="*", default=VICTIMS, choices=VICTIMS)
    parser.add_argument("--rounds", nargs="*", default=[], metavar="VICTIM:MOMENT", help="these instead")
    parser.add_argument("--seconds", type=float, default=86_400.0, help="begin no further round after this long")
    arguments = parser.parse_args()
    chosen = [(v, m) for v in arguments.victims for m in arguments.moments]
    if arguments.rounds:
        chosen = [pair for pair in chosen if ":".join(pair) in arguments.rounds]
        assert len(chosen) == len(arguments.rounds), f"of {arguments.rounds} only {chosen} are known"
    began, rounds, failure = time.monotonic(), [], ""
    with tempfile.TemporaryDirectory(prefix="weir-moves-") as folder:
        house = house_with_cargo(Path(folder))
        try:
            verifier = Verifier(house, "verified", 500)  # type: ignore[arg-type]  # of a cluster it wants the address only
            matrix = Matrix(house, verifier)
            try:
                verifier.progress("before anything happens", 500)
                source, target = 1, BROKERS
                for victim, moment in chosen:
                    if time.monotonic() - began > arguments.seconds:
                        break
                    if matrix.cargo(target, source) > matrix.cargo(source, target):
                        source, target = target, source
                    row = matrix.one(moment, victim, source, target)
                    rounds.append(row)
                    print(
                        f"{victim:>10} {moment:<12} back {row.back_s:5.1f} s, went on after {row.resumed_s:4.1f} s, "
                        f"ended {row.ended_s:5.1f} s later {'; '.join(row.problems) or 'ok'}",
                        flush=True,
                    )
                    verifier.progress(f"after {victim} died {moment}", 200)
            except Exception as e:  # whatever it was: the verifier's judgement is told, and its threads end
                failure = repr(e)
            count = verifier.count()
        finally:
            house.down()
    slowest = max((r.resumed_s for r in rounds), default=0.0)
    bad = [r for r in rounds if r.problems]
    print(
        f"rounds {len(rounds)}, bad {len(bad)}, slowest to go on {slowest:.1f} s, seconds {time.monotonic() - began:.0f}"
    )
    print(f"acked {count.acked}, lost {count.lost}, doubled {count.doubled}, out of order {count.disordered}, "
          f"given up {count.failed}, never delivered {count.undelivered}")  # fmt: skip
    if failure:
        print(f"a round failed: {failure}")
    return (
        1
        if failure or bad or count.lost or count.doubled or count.disordered or count.failed or count.undelivered
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
