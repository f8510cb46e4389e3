"""The three ways in which the matrix moves: which moments each has, how one is reached, what has to be done for the move to end, what it may leave.

`copy` copies everything, and compares it, as a move does that says nothing else; `tail` nothing old, and ends by an operator's cut; `early` nothing old either, hands over at once and leaves the old records
with the old replicas, where they are read from the earliest on through the new leaders, before everything goes home by a copy. Called by
`moves_matrix`. Does not check: what is the same for all of them (`moves_matrix`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import TopicPartition

from controlplane.moveparts import COMPARING
from tests.cluster.house import House
from tests.cluster.local import wait_for
from tests.cluster.test_failover import PARTITIONS, Count, Verifier
from tests.faults.moves_matrix_seen import Key, Seen

BROKERS = 4
CARGO_PARTITIONS = 3
THROTTLE = 250_000
"""Bytes per second and broker: the cargo takes some seconds, long enough to be killed in."""
VERBS = {"pausing": "pause", "cancelling": "cancel", "rolling_back": "roll_back"}
CONFIGS = {"min.insync.replicas": "2"}
JOINED = {"ordered", "copying", "verifying", "done"}
"""Of a part of a tail that was cut, or handed over: old and new copies are replicas together, or the old ones have gone."""


def _compares(part: dict[str, Any]) -> bool:
    return part["state"] == "verifying" and str(part["note"]).startswith(COMPARING)


class Copies:
    """Mode `copy`. `steps`: assignment generations that a part takes at most, when it is done and when it is not."""

    moments: Sequence[str] = ("ordering", "copying", "comparing", "ending", "pausing", "cancelling", "rolling_back")
    topics: Sequence[str] = ("verified", "cargo")
    weighed = "cargo"
    """The topic by which the way is chosen."""
    steps = (4, 6)
    asked: dict[str, Any] = {"mode": "copy"}

    def __init__(self, house: House, verifier: Verifier) -> None:
        self.house, self.verifier = house, verifier
        self.seen = Seen(house, self.topics, BROKERS)

    @classmethod
    def fill(cls, house: House) -> None:
        house.topic("verified", partitions=PARTITIONS, replication_factor=3, configs=CONFIGS)
        # All of it goes the same way: of three replicas on four brokers some would have source and target both, and never move.
        places = {str(i): [1, 2, 3] for i in range(CARGO_PARTITIONS)}
        house.topic("cargo", partitions=CARGO_PARTITIONS, replication_factor=3, configs=CONFIGS, assignment=places)
        house.fill("cargo", 9_000)  # 4.5 MB and a little
        wait_for(lambda: all((p["size_bytes"] or 0) > 1_000_000 for p in house.partitions("cargo")), "sizes", 60)

    def reach(self, move_id: int, moment: str) -> None:
        """The move is there, and its operator has said what the moment is about."""
        if moment == "ordering":
            return
        if moment == "comparing":
            self._wait(move_id, lambda: any(_compares(p) for p in self.seen.parts(move_id)), "a part to be compared")
            return
        if moment == "ending":
            self._until(move_id, lambda m: m["percent"] > 85 or m["finished_at"], "the end to be near", 120)
            return
        self._until(move_id, lambda m: (m["bytes_done"] or 0) > 200_000, "a part to be copied", 60)
        self._say(move_id, moment)

    def waits(self, state: str, ended: int, copied: int, finished: str | None, states: Sequence[str]) -> bool:
        """Whether it has done all that it may without its operator, from what is told of it."""
        return False

    def urge(self, move_id: int) -> str:
        """What its operator does for it to end, asked again and again; what was done, in a word."""
        return ""

    def after(self, move_id: int, done: dict[str, Any]) -> list[str]:
        """What is wrong besides; everything is such that a next round may begin."""
        if done["state"] != "done":
            return []
        return [
            f"{p['topic']}-{p['partition']} lost its old copy uncompared: {p['compared']}"
            for p in self.seen.parts(move_id)
            if not p["compared"] or p["compared"]["equal"] is not True
        ]

    def _say(self, move_id: int, moment: str) -> None:
        if moment in VERBS:
            self.house.post(f"moves/{move_id}/{VERBS[moment]}", {"why": "matrix"})

    def _until(self, move_id: int, holds: Callable[[dict[str, Any]], Any], what: str, seconds: float) -> None:
        self._wait(move_id, lambda: (m := self.seen.move(move_id)) and holds(m), what, seconds)

    def _wait(self, move_id: int, holds: Callable[[], Any], what: str, seconds: float = 60) -> None:
        try:
            wait_for(holds, what, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.seen.move(move_id)}, {self.seen.parts(move_id)}") from e


class Tails(Copies):
    """Mode `tail`: observers, a cut by two people, the joining, the switch."""

    moments = ("ordering", "following", "cutting", "joining", "ending", "pausing", "cancelling", "rolling_back")
    topics = ("verified",)
    weighed = "verified"
    steps = (6, 8)
    asked = {"mode": "tail"}

    @classmethod
    def fill(cls, house: House) -> None:
        # Each may go from 1 to 4, and each of its brokers leads some.
        places = {str(i): [(i + n) % 3 + 1 for n in range(3)] for i in range(PARTITIONS)}
        house.topic("verified", partitions=PARTITIONS, replication_factor=3, configs=CONFIGS, assignment=places)

    def reach(self, move_id: int, moment: str) -> None:
        if moment == "ordering":
            return
        if moment == "following":
            self._wait(move_id, lambda: any(p["tail_start"] for p in self.seen.parts(move_id)), "a tail to begin")
            return
        self._wait(move_id, lambda: set(self.seen.states(move_id)) == {"ready"}, "all to be in step")
        if moment in ("cutting", "joining", "ending", "rolling_back"):
            self._cut(move_id)
            if moment != "cutting":
                sought = {"verifying", "done"} if moment == "ending" else JOINED
                self._wait(move_id, lambda: sought & set(self.seen.states(move_id)), f"a part to be one of {sought}")
        self._say(move_id, moment)

    def waits(self, state: str, ended: int, copied: int, finished: str | None, states: Sequence[str]) -> bool:
        return state == "running" and set(states) == {"ready"}

    def urge(self, move_id: int) -> str:
        states, move = set(self.seen.states(move_id)), self.seen.move(move_id)
        if (
            not move
            or move["state"] != "running"
            or "ready" not in states
            or states & {"waiting", "seeding", "following"}
        ):
            return ""
        preview = self.seen.patient(lambda: self.house.get(f"moves/{move_id}/cut"))
        if not preview or not preview["parts"]:
            return ""
        return "cut" if self.seen.patient(lambda: self._cut(move_id)) else "not cut"

    def _cut(self, move_id: int) -> bool:
        """When the verifier's group has read, and committed, what is to be deleted."""

        def read() -> Any:
            preview = self.house.get(f"moves/{move_id}/cut")
            return preview if preview["parts"] and not preview["groups"] else None

        acked = set(self.verifier.acked)
        wait_for(lambda: self.verifier.seen >= acked, "the readers", 90)
        confirm = wait_for(read, "the group to have committed what it has read", 90)["confirm"]
        self.house.by_two("move.cut", str(move_id), {"confirm": confirm})
        return True

    def after(self, move_id: int, done: dict[str, Any]) -> list[str]:
        self.verifier.begins |= {
            p["partition"]: p["cut_at"] for p in self.seen.parts(move_id) if p["cut_at"] is not None
        }
        return super().after(move_id, done)


class Early(Tails):
    """Mode `tail` handed over early: the old records stay with the old replicas."""

    moments = ("ordering", "following", "joining", "ending", "pausing", "cancelling", "rolling_back")
    steps = (5, 7)
    asked = {"mode": "tail", "handover": "early"}

    def __init__(self, house: House, verifier: Verifier) -> None:
        super().__init__(house, verifier)
        self.home = {key: replicas for key, (replicas, _) in self.seen.placements().items()}

    def reach(self, move_id: int, moment: str) -> None:
        if moment == "ordering":
            return
        sought = {
            "following": None,
            "pausing": None,
            "rolling_back": {"verifying", "done"},
            "ending": {"verifying", "done"},
        }.get(moment, JOINED)
        if sought is None:
            self._wait(move_id, lambda: any(p["tail_start"] for p in self.seen.parts(move_id)), "a tail to begin")
        else:
            self._wait(move_id, lambda: sought & set(self.seen.states(move_id)), f"a part to be one of {sought}")
        self._say(move_id, moment)

    def waits(self, state: str, ended: int, copied: int, finished: str | None, states: Sequence[str]) -> bool:
        return False

    def urge(self, move_id: int) -> str:
        """It hands over by itself."""
        return ""

    def after(self, move_id: int, done: dict[str, Any]) -> list[str]:
        problems = Copies.after(self, move_id, done) + self._read()
        away = {k: self.home[k] for k, (replicas, _) in self.seen.placements().items() if replicas != self.home[k]}
        if away:
            self._go_home(away)
        if self.seen.apart():
            # Whoever was not in sync when it was handed over holds nothing, and what it has copied since ends no archive.
            self._let_go()
        return problems

    def _read(self) -> list[str]:
        """All that was acknowledged until now, from the earliest on."""
        c: Count = self.verifier.judged(dict(self.verifier.acked))
        return [f"read while {self.seen.apart()} lie apart: {c}"] if c.lost or c.doubled or c.disordered else []

    def _go_home(self, wanted: dict[Key, list[int]]) -> None:
        parts = [{"topic": t, "partition": i, "replicas": to} for (t, i), to in sorted(wanted.items())]
        body = {"scope": {"kind": "partitions", "partitions": parts}, "start": True, "why": "home"}
        move_id = self.house.post("moves", body)["id"]
        self._until(move_id, lambda m: m["state"] == "done", "the way home", 90)

    def _let_go(self) -> None:
        acked = set(self.verifier.acked)
        wait_for(lambda: self.verifier.seen >= acked, "the readers", 90)
        starts = self.seen.apart()
        below = [TopicPartition(t, i, offset) for (t, i), offset in starts.items()]
        for answer in self.house.admin.delete_records(below).values():
            answer.result(60)
        self.verifier.begins |= {i: offset for (_, i), offset in starts.items()}
        wait_for(lambda: not self.seen.apart(), "the archives to end", 60)


MODES: dict[str, type[Copies]] = {"copy": Copies, "tail": Tails, "early": Early}
