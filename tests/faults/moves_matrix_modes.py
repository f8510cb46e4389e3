"""The three modes of the matrix. Each has the moments of a kill, the way to each moment, the operator's part in the end of a move, and the permitted
final state.

`copy` copies and compares everything, like a move without options. `tail` copies no old data and ends when an operator deletes the old records.
`early` copies no old data either, but hands over at once and leaves the old records on the old replicas; consumers read them from the earliest offset
through the new leaders, before a copy moves everything back. Does not contain the steps that all modes share (`moves_matrix`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.cluster.test_failover import PARTITIONS, Count, Verifier
from tests.faults.moves_matrix_observed import Key, ObservedStates

BROKERS = 4
CARGO_PARTITIONS = 3
THROTTLE = 250_000
"""Bytes per second and broker, at least: the topic `cargo` takes some seconds, long enough for a kill."""
COPY_SECONDS = 20
"""The topic `verified` grows from round to round. The throttle grows with it, so that a copy takes about this long in the last round too."""
VERBS = {"pausing": "pause", "cancelling": "cancel", "rolling_back": "roll_back"}
MOVED = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REQUEST_TIMED_OUT)
CONFIGS = {"min.insync.replicas": "2"}
JOINED = {"submitted", "copying", "verifying", "comparing", "done"}
"""States of a part of a tail move after its cut or hand-over: old and new replicas together, or the new ones alone."""


def _compares(part: dict[str, Any]) -> bool:
    return part["state"] == "comparing"


class Copies:
    """Mode `copy`. `steps`: the most assignment generations per part, for a finished and for a rolled-back move."""

    moments: Sequence[str] = ("submitting", "copying", "comparing", "ending", "pausing", "cancelling", "rolling_back")
    topics: Sequence[str] = ("verified", "cargo")
    weighed = "cargo"
    """The topic that decides the direction of the move."""
    steps = (4, 6)
    requested: dict[str, Any] = {"mode": "copy"}

    def __init__(self, devcluster: DevCluster, verifier: Verifier) -> None:
        self.devcluster, self.verifier = devcluster, verifier
        self.seen = ObservedStates(devcluster, self.topics, BROKERS)

    @classmethod
    def fill(cls, devcluster: DevCluster) -> None:
        devcluster.topic("verified", partitions=PARTITIONS, replication_factor=3, configs=CONFIGS)
        # All partitions move in the same direction: with three replicas on four brokers some would have source and target both and never move.
        places = {str(i): [1, 2, 3] for i in range(CARGO_PARTITIONS)}
        devcluster.topic("cargo", partitions=CARGO_PARTITIONS, replication_factor=3, configs=CONFIGS, assignment=places)
        devcluster.fill("cargo", 9_000)  # slightly more than 4.5 MB
        wait_for(lambda: all((p["size_bytes"] or 0) > 1_000_000 for p in devcluster.partitions("cargo")), "sizes", 60)

    def throttle(self, keys: Collection[Key]) -> int:
        """Bytes per second and broker for a move of these partitions."""
        return max(THROTTLE, self.seen.size_bytes(keys) // COPY_SECONDS)

    def reach(self, move_id: int, moment: str) -> None:
        """Waits until the move is at the moment and performs its operator's part of it."""
        if moment == "submitting":
            return
        if moment == "comparing":
            self._wait(move_id, lambda: any(_compares(p) for p in self.seen.parts(move_id)), "a part to be compared")
            return
        if moment == "ending":
            self._wait_until(move_id, lambda m: m["percent"] > 85 or m["finished_at"], "the end to be near", 120)
            return
        self._wait_until(move_id, lambda m: (m["bytes_done"] or 0) > 200_000, "a part to be copied", 60)
        self._act(move_id, moment)

    def waits_for_operator(
        self, state: str, ended: int, copied: int, finished: str | None, states: Sequence[str]
    ) -> bool:
        """True if the move's status shows that the move waits for its operator."""
        return False

    def let_move_end(self, move_id: int) -> str:
        """One attempt of the operator's operation that lets the move end. Returns the name of the operation."""
        return ""

    def check_after_move(self, move_id: int, done: dict[str, Any]) -> list[str]:
        """Further problems. Afterwards the cluster is ready for the next round."""
        if done["state"] != "done":
            return []
        return [
            f"{p['topic']}-{p['partition']} lost its old replica without a comparison: {p['compared']}"
            for p in self.seen.parts(move_id)
            if not p["compared"] or p["compared"]["equal"] is not True
        ]

    def _act(self, move_id: int, moment: str) -> None:
        if moment in VERBS:
            self.devcluster.post(f"moves/{move_id}/{VERBS[moment]}", {"comment": "matrix"})

    def _wait_until(self, move_id: int, condition: Callable[[dict[str, Any]], Any], what: str, seconds: float) -> None:
        self._wait(move_id, lambda: (m := self.seen.move(move_id)) and condition(m), what, seconds)

    def _wait(self, move_id: int, condition: Callable[[], Any], what: str, seconds: float = 60) -> None:
        try:
            wait_for(condition, what, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.seen.move(move_id)}, {self.seen.parts(move_id)}") from e


class TailMoves(Copies):
    """Mode `tail`: observers, deletion of old records by two people, the join of the ISR, the switch."""

    moments = ("submitting", "catching_up", "truncating", "joining", "ending", "pausing", "cancelling", "rolling_back")
    topics = ("verified",)
    weighed = "verified"
    steps = (6, 8)
    requested = {"mode": "tail"}

    @classmethod
    def fill(cls, devcluster: DevCluster) -> None:
        # Each partition can move from 1 to 4, and each of its brokers leads some.
        places = {str(i): [(i + n) % 3 + 1 for n in range(3)] for i in range(PARTITIONS)}
        devcluster.topic("verified", partitions=PARTITIONS, replication_factor=3, configs=CONFIGS, assignment=places)

    def reach(self, move_id: int, moment: str) -> None:
        if moment == "submitting":
            return
        if moment == "catching_up":
            self._wait(move_id, lambda: any(p["tail_start"] for p in self.seen.parts(move_id)), "a tail to start")
            return
        self._wait(move_id, lambda: set(self.seen.states(move_id)) == {"ready"}, "all parts to be ready")
        if moment in ("truncating", "joining", "ending", "rolling_back"):
            self._delete_old_records(move_id)
            if moment != "truncating":
                sought = {"verifying", "done"} if moment == "ending" else JOINED
                self._wait(move_id, lambda: sought & set(self.seen.states(move_id)), f"a part to be one of {sought}")
        self._act(move_id, moment)

    def waits_for_operator(
        self, state: str, ended: int, copied: int, finished: str | None, states: Sequence[str]
    ) -> bool:
        return state == "running" and set(states) == {"ready"}

    def let_move_end(self, move_id: int) -> str:
        states, move = set(self.seen.states(move_id)), self.seen.move(move_id)
        if (
            not move
            or move["state"] != "running"
            or "ready" not in states
            or states & {"waiting", "bootstrapping", "catching_up"}
        ):
            return ""
        preview = self.seen.unless_down(lambda: self.devcluster.get(f"moves/{move_id}/delete-records"))
        if not preview or not preview["parts"]:
            return ""
        return "cut" if self.seen.unless_down(lambda: self._delete_old_records(move_id)) else "not cut"

    def _delete_old_records(self, move_id: int) -> bool:
        """Deletes the old records as soon as the verifier's group has read and committed them."""

        def read() -> Any:
            preview = self.devcluster.get(f"moves/{move_id}/delete-records")
            return preview if preview["parts"] and not preview["groups"] else None

        acked = set(self.verifier.acked)
        wait_for(lambda: self.verifier.seen >= acked, "the readers", 90)
        confirm = wait_for(read, "the group to have committed what it has read", 90)["confirm"]
        self.devcluster.propose_and_approve("move.delete_records", str(move_id), {"confirm": confirm})
        return True

    def check_after_move(self, move_id: int, done: dict[str, Any]) -> list[str]:
        self.verifier.begins |= {
            p["partition"]: p["delete_below"] for p in self.seen.parts(move_id) if p["delete_below"] is not None
        }
        return super().check_after_move(move_id, done)


class EarlyHandovers(TailMoves):
    """Mode `tail` with an early hand-over: the old records stay on the old replicas."""

    moments = ("submitting", "catching_up", "joining", "ending", "pausing", "cancelling", "rolling_back")
    steps = (5, 7)
    requested = {"mode": "tail", "handover": "early"}

    def __init__(self, devcluster: DevCluster, verifier: Verifier) -> None:
        super().__init__(devcluster, verifier)
        self.home = {key: replicas for key, (replicas, _) in self.seen.placements().items()}

    def reach(self, move_id: int, moment: str) -> None:
        if moment == "submitting":
            return
        sought = {
            "catching_up": None,
            "pausing": None,
            "rolling_back": {"verifying", "done"},
            "ending": {"verifying", "done"},
        }.get(moment, JOINED)
        if sought is None:
            self._wait(move_id, lambda: any(p["tail_start"] for p in self.seen.parts(move_id)), "a tail to start")
        else:
            self._wait(move_id, lambda: sought & set(self.seen.states(move_id)), f"a part to be one of {sought}")
        self._act(move_id, moment)

    def waits_for_operator(
        self, state: str, ended: int, copied: int, finished: str | None, states: Sequence[str]
    ) -> bool:
        return False

    def let_move_end(self, move_id: int) -> str:
        """An early move hands over automatically."""
        return ""

    def check_after_move(self, move_id: int, done: dict[str, Any]) -> list[str]:
        problems = Copies.check_after_move(self, move_id, done) + self._read()
        away = {k: self.home[k] for k, (replicas, _) in self.seen.placements().items() if replicas != self.home[k]}
        if away:
            self._move_back(away)
        if self.seen.history_end_offsets():
            # A broker that was not in sync at the hand-over is no history replica, and the records it has copied since end no history.
            self._release_histories()
        return problems

    def _read(self) -> list[str]:
        """Reads all acknowledged records from the earliest offset."""
        c: Count = self.verifier.count_for(dict(self.verifier.acked))
        return (
            [f"read while {self.seen.history_end_offsets()} lie apart: {c}"]
            if c.lost or c.doubled or c.disordered
            else []
        )

    def _move_back(self, wanted: dict[Key, list[int]]) -> None:
        parts = [{"topic": t, "partition": i, "replicas": to} for (t, i), to in sorted(wanted.items())]
        body = {"scope": {"kind": "partitions", "partitions": parts}, "start": True, "comment": "home"}
        move_id = self.devcluster.post("moves", body)["id"]
        self._wait_until(move_id, lambda m: m["state"] == "done", "the move back", 90)

    def _release_histories(self) -> None:
        acked = set(self.verifier.acked)
        wait_for(lambda: self.verifier.seen >= acked, "the readers", 90)
        starts = self.seen.history_end_offsets()

        def is_deleted() -> bool:
            """Leaders may change meanwhile. librdkafka then repeats DeleteRecords neither itself nor at the new leader: it keeps the old leader in
            its cache, so each attempt has a client of its own."""
            admin = AdminClient(self.devcluster.client)
            below = [TopicPartition(t, i, offset) for (t, i), offset in starts.items()]
            for at, response in admin.delete_records(below).items():
                try:
                    response.result(60)
                except KafkaException as e:
                    if e.args[0].code() not in MOVED:
                        raise
                else:
                    self.verifier.begins[at.partition] = starts.pop((at.topic, at.partition))
            return not starts

        wait_for(is_deleted, "the old records to be deleted", 60)
        wait_for(lambda: not self.seen.history_end_offsets(), "the histories to end", 60)


MODES: dict[str, type[Copies]] = {"copy": Copies, "tail": TailMoves, "early": EarlyHandovers}
