"""Moves of copies between this broker's directories (KIP-113): a future copy is made beside the live one and takes its place.

Laws: the future copy is a prefix of the live one, cut by epoch where the live one was cut; it takes over when it holds all the live one
holds and as much of it is flushed. Two renames do it: the live folder goes away (`-delete`), the future one gets its name. A crash
before the first leaves a move to go on with, one between them a future copy without a live one, which then is the truth; if a power cut
undoes only the first, both hold all that was flushed, and the one that knows more counts (`logdirs`). While a copy moves it is not
compacted: a tombstone could go before it is copied, its victim already there. Called by the door and the broker's timers; what takes
long runs as a job. Must not come in: the wire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from brokerd.cluster.model import Now, TopicPartition
from brokerd.logdirs import LogDir, future_name, future_of
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.replication import truncation_point
from brokerd.storage import checkpoints, tails
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.flushing import Flush
from brokerd.storage.jobs import Runner
from brokerd.storage.log import Log
from brokerd.storage.slices import Slice
from brokerd.wire.errors import ErrorCode

log = logging.getLogger(__name__)

COPY_BYTES = 4 * 1024 * 1024
"""Copied by one job: flushes and compactions of others have their turn in between."""
LAST_BYTES = 1024 * 1024
"""What may be copied on the loop, at the moment of the change: little enough for a pause nobody notices."""
ROUNDS_MAX = 20
"""After so many rounds of copying and flushing whatever came meanwhile is copied on the loop: else a busy log would never move."""


class LiveFailed(Exception):
    """It is not the future copy that failed, but the one in use."""

    def __init__(self, error: DiskFailed) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Relocation:
    replica: Replica
    target: LogDir
    future: Log
    cuts: int
    """Of the live log, when the future one was last compared with it."""
    rounds: int = 0
    busy: bool = False
    cancelled: bool = False


class Relocations:
    def __init__(
        self, partitions: Partitions, jobs: Runner, clock: Callable[[], Now], *, bytes_per_s_max: Callable[[], int]
    ) -> None:
        self._partitions, self._jobs, self._clock = partitions, jobs, clock
        self._dirs, self._disk = partitions.log_dirs, partitions.disk
        self._bytes_per_s_max = bytes_per_s_max
        self._not_before_ms = 0
        self.under_way: dict[TopicPartition, Relocation] = {}

    # -- what is asked ---------------------------------------------------------------------------------------------------
    def ask(self, topic: str, index: int, path: str, now: Now) -> ErrorCode:
        """Kafka's answers: nothing has to be done any more, or it has begun, or why not."""
        target = self._dirs.at(Path(path))
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._partitions.image.topic_named(topic)
        if state is None or index not in state.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        replica = self._partitions.find(state, index)
        if replica is None:
            self._dirs.preferred[f"{topic}-{index}"] = target  # where it is to be, should it come here
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if replica.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        present = self.under_way.get(replica.tp)
        if present is not None and present.target is target and not present.cancelled:
            return ErrorCode.NONE
        if present is not None:
            self.cancel(present)
            if present.busy:
                return ErrorCode.REPLICA_NOT_AVAILABLE  # for the moment a job takes: ask again
        if self._dirs.of(replica.log.folder) is target:
            return ErrorCode.NONE
        try:
            self._begin(replica, target, now)
        except (DiskFailed, DiskFull) as e:
            self._refused(target, f"{replica.name} cannot move to {target.path}", e)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _begin(self, replica: Replica, target: LogDir, now: Now) -> None:
        folder = target.path / future_name(replica.topic, replica.tp)
        self._disk.mkdir(folder)
        checkpoints.write_partition_metadata(self._disk, folder, replica.tp.topic_id)
        future = Log.open(folder, replica.config, self._disk, now, deep=target.deep)
        self.under_way[replica.tp] = Relocation(replica, target, future, cuts=-1)
        replica.moving = True
        log.info("%s moves from %s to %s", replica.name, replica.log.folder.parent, target.path)

    def resume(self, now: Now) -> None:
        """At the start: go on with the moves that were under way, remove what is left of others."""
        for d in self._dirs.online:
            for name in self._disk.listdir(d.path):
                tp = future_of(name)
                if tp is None or tp in self.under_way:
                    continue
                replica = self._partitions.hosted.get(tp)
                try:
                    if (
                        replica is not None
                        and replica.offline_reason is None
                        and self._dirs.of(replica.log.folder) is not d
                    ):
                        self._begin(replica, d, now)
                    elif replica is not None:
                        self._dirs.remove_folder(d.path / name)
                except (DiskFailed, DiskFull) as e:
                    self._refused(d, f"the move of {name} does not go on", e)

    def cancel(self, move: Relocation) -> None:
        """Give the future copy up; at once, or when the job under way with it has ended."""
        move.cancelled = True
        move.replica.moving = move.replica.held = False
        if not move.busy:
            self.under_way.pop(move.replica.tp, None)
            self._dirs.remove(move.future)

    def _refused(self, target: LogDir, what: str, error: Exception) -> None:
        log.error("%s: %s", what, error)
        if isinstance(error, DiskFailed) and error.of_device:
            self._dirs.fail(target, str(error))

    # -- step by step ----------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        if now.mono_ms < self._not_before_ms or any(move.busy for move in self.under_way.values()):
            return
        for move in list(self.under_way.values()):
            try:
                self._step(move, now)
            except (DiskFailed, DiskFull, LiveFailed) as e:
                self._failed(move, e)
            if move.busy:
                return

    def _step(self, move: Relocation, now: Now) -> None:
        replica, future = move.replica, move.future
        if self._partitions.hosted.get(replica.tp) is not replica or replica.offline_reason is not None:
            self.cancel(move)
            return
        if move.target.failed is not None:
            self.cancel(move)
            return
        live = replica.log
        self._align(move, now)
        while live.end_offset > future.end_offset:
            piece = _next_piece(live, future, COPY_BYTES)
            self._pace(piece.size, now)
            if piece.size > LAST_BYTES or live.segments[-1].base_offset > future.end_offset:
                self._work(move, partial(_copy, future, piece, now), None)
                return
            _copy(future, piece, now)
        plan = future.flushing.plan(snapshot=True)
        if plan is None:
            self._take_over(move, now)
            return
        replica.held = True  # or its flushes would always be ahead
        self._work(move, plan.run, plan)

    def _pace(self, size: int, now: Now) -> None:
        self._not_before_ms = now.mono_ms + size * 1000 // self._bytes_per_s_max()

    def _align(self, move: Relocation, now: Now) -> None:
        """Cut the future log where the live one was cut, or let it begin where the live one begins now."""
        live, future = move.replica.log, move.future
        if move.cuts != live.flushing.cuts:
            move.cuts = live.flushing.cuts
            epoch, end = live.epochs.end_offset_for(future.last_epoch)
            point = min(truncation_point(future.epochs.end_offset_for, future.end_offset, epoch, end), live.end_offset)
            if point < future.end_offset:
                future.truncate_to(point)
        if future.end_offset < live.start_offset or future.end_offset < live.segments[0].base_offset:
            first = next(live.headers(live.start_offset), None)
            begins = first.base_offset if first is not None else live.start_offset
            seed = tails.seed_at(live, begins)
            if seed is not None:
                tails.begin(future, seed, now)  # what a tail began with is not in its records
            else:
                future.reset_to(begins, now)

    def _work(self, move: Relocation, run: Callable[[], None], plan: Flush | None) -> None:
        move.busy = True
        self._jobs.submit(run, partial(self._worked, move, plan))

    def _worked(self, move: Relocation, plan: Flush | None, error: BaseException | None) -> None:
        move.busy = False
        if move.cancelled:
            self.cancel(move)
            return
        try:
            if error is not None:
                raise error
            if plan is not None:
                move.future.flushing.finished(plan)
                self._take_over(move, self._clock())
        except (DiskFailed, DiskFull, LiveFailed) as e:
            self._failed(move, e)
        self.tick(self._clock())

    def _failed(self, move: Relocation, error: Exception) -> None:
        if isinstance(error, LiveFailed):
            self._partitions.fail(move.replica, error.error)
        else:
            self._refused(move.target, f"{move.replica.name} does not move to {move.target.path}", error)
        self.cancel(move)

    # -- the change ------------------------------------------------------------------------------------------------------
    def _take_over(self, move: Relocation, now: Now) -> None:
        """Everything is copied and flushed, but for what came meanwhile."""
        replica, live, future = move.replica, move.replica.log, move.future
        move.rounds += 1
        if self._partitions.hosted.get(replica.tp) is not replica or replica.offline_reason is not None:
            return  # the next step cancels
        if move.cuts != live.flushing.cuts or future.flushing.offset < min(live.flushing.offset, live.end_offset):
            return  # cut, or a flush of the live log ended meanwhile; none begins now
        while live.end_offset > future.end_offset:
            piece = _next_piece(live, future, LAST_BYTES)
            _copy(future, piece, now)
            if piece.size > LAST_BYTES // 2 and move.rounds < ROUNDS_MAX:
                return
        future.raise_start(live.start_offset)
        old, gone = live.folder, self._dirs.aside(live.folder, "-delete")
        live.close_files()
        try:
            self._disk.rename(old, gone)
        except DiskFailed as e:
            raise LiveFailed(e) from e
        try:
            future.rename(move.target.path / old.name)
        except (DiskFailed, DiskFull):
            self._disk.rename(gone, old)
            raise
        del self.under_way[replica.tp]
        replica.held = replica.moving = False
        future.config, future.producers, future.epochs = replica.config, live.producers, live.epochs
        future.producer_expiration_ms = live.producer_expiration_ms
        replica.log = future
        self._dirs.of(old).held -= 1
        move.target.held += 1
        log.info("%s has moved from %s to %s", replica.name, old.parent, move.target.path)
        self._partitions.copies.checkpoint()
        self._disk.discard_tree(gone)
        self._partitions.flushed(replica, now)


def _next_piece(live: Log, future: Log, bytes_max: int) -> Slice:
    try:
        return live.read(future.end_offset, bytes_max, live.end_offset)
    except DiskFailed as e:
        raise LiveFailed(e) from e


def _copy(future: Log, piece: Slice, now: Now) -> None:
    try:
        data = piece.bytes()
    except DiskFailed as e:
        raise LiveFailed(e) from e
    future.append_fetched(memoryview(data), now)
