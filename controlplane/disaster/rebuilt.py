"""Builds a new image of the metadata log from the known topics and the brokers' logs. Pure.

Invariants: leaders and ISRs come only from the logs, never from an older image. The replica with the highest (last leader epoch, log
end offset) has every acknowledged record, as every leader had; the replicas with that value are the ISR. New epochs and entry numbers are
above all known ones. Absence never deletes. Does not contain: files, rows, ZooKeeper.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from brokerd.cluster import broker_lives
from brokerd.cluster.broker_lives import DirectoryDoubt
from brokerd.cluster.image import Image
from brokerd.cluster.levels import HANDOVER_LEVEL, LEVEL_MIN, LIFE_LEVEL
from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    NO_BROKER_EPOCH,
    NO_LEADER,
    PartitionState,
    ReplicaIncarnation,
    TopicPartition,
    TopicState,
)

INSPECTION_FORMAT = 1
EPOCHS_ABOVE = 1_000
"""Margin for unrecorded elections and changes: new epochs start this far above the highest known one."""
NUMBERS_ABOVE = 1_000_000
"""Margin for the numbers of log entries, because a process may still have unrecorded numbers in memory."""
KEEP_EVERYTHING = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Configs of a topic that only the disks know: its configs are unknown, so no record may be deleted."""


class CannotRebuild(Exception):
    """The text names the contradiction and what helps."""


@dataclass(frozen=True, slots=True)
class InspectedReplica:
    """A partition's log on one broker, as a start of the broker would load it: log start offset `start`, log end offset `end`."""

    broker_id: int
    topic: str
    tp: TopicPartition
    last_epoch: int
    end: int
    high_watermark: int = 0
    start: int = 0

    @property
    def reach(self) -> tuple[int, int]:
        return self.last_epoch, self.end


@dataclass(frozen=True, slots=True)
class LogDirsInspection:
    """One broker's disks (`brokerd.tools.inspect_log_dirs`). `trusted`: no written record can be missing; `doubt` (a
    `broker_lives.DirectoryDoubt`, or "") is the reason if not. `lives`: the broker's last start on them, then earlier starts that it did
    not know to be recorded."""

    broker_id: int
    cluster_id: str
    metadata_seq: int
    trusted: bool = True
    copies: tuple[InspectedReplica, ...] = ()
    lost: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    doubt: str = ""
    lives: tuple[str, ...] = ()

    @staticmethod
    def decode(text: str) -> LogDirsInspection:
        """Raises ValueError for a malformed inspection or another format."""
        try:
            body: dict[str, Any] = json.loads(text)
            if body["format"] != INSPECTION_FORMAT:
                raise ValueError(
                    f"the inspection has format {body['format']}, this version reads format {INSPECTION_FORMAT}"
                )
            broker_id = int(body["broker_id"])
            copies = tuple(
                InspectedReplica(
                    broker_id,
                    c["topic"],
                    TopicPartition(UUID(c["topic_id"]), c["partition"]),
                    c["last_epoch"],
                    c["end"],
                    c["high_watermark"],
                    c.get("start", 0),
                )
                for c in body["copies"]
            )
            return LogDirsInspection(
                broker_id,
                body["cluster_id"],
                body["metadata_seq"],
                body["trusted"],
                copies,
                tuple(body["lost"]),
                tuple(body["strays"]),
                body.get("doubt") or "",
                tuple(body.get("lives", ())),
            )
        except (KeyError, TypeError) as e:
            raise ValueError(f"malformed inspection: {e!r}") from e


@dataclass(slots=True)
class RebuiltImage:
    """`notes` are messages for the operator about unproven and unknown data."""

    image: Image
    notes: list[str] = field(default_factory=list)


def cluster_of(inspections: Iterable[LogDirsInspection], former: str) -> str:
    """The cluster that all disks belong to. Raises CannotRebuild if the disks and `former` disagree."""
    found = {s.cluster_id for s in inspections if s.cluster_id}
    if len(found) > 1:
        raise CannotRebuild(f"the disks belong to several clusters: {', '.join(sorted(found))}")
    if found and former and found != {former}:
        raise CannotRebuild(f"the disks belong to cluster {found.pop()}, the backup or database to cluster {former}")
    if not found and not former:
        raise CannotRebuild("neither the disks nor the database contain a cluster id; there is nothing to rebuild")
    return found.pop() if found else former


def rebuild(
    base: Image,
    inspections: Sequence[LogDirsInspection],
    *,
    chain_hash: str,
    without: frozenset[int] = frozenset(),
    older: frozenset[int] = frozenset(),
    epochs_seen: int = 0,
    seq_seen: int = 0,
) -> RebuiltImage:
    """`base` contains the topics, their configs and their assignments. Its leaders and ISRs are ignored.

    `without`: permanently lost brokers; any other broker with a replica must be in `inspections`. `older`: brokers whose directory is used
    although it is an older copy. `epochs_seen`: the highest other known controller epoch, `seq_seen` the highest other known entry
    number. Raises CannotRebuild.
    """
    cluster_id = cluster_of(inspections, base.cluster_id)
    notes_of_older = _older_copies(base, inspections, older)
    lives = {s.broker_id: s.lives[0] for s in inspections if s.lives and base.metadata_version >= LIFE_LEVEL}
    # All other fields of the base are kept.
    image = replace(
        base,
        cluster_id=cluster_id,
        metadata_version=max(base.metadata_version, LEVEL_MIN),
        chain_hash=chain_hash,
        seq=max([base.seq, seq_seen, *(s.metadata_seq for s in inspections)]) + NUMBERS_ABOVE,
        controller_epoch=max(base.controller_epoch, epochs_seen) + EPOCHS_ABOVE,
        brokers={
            i: replace(b, alive=False, broker_epoch=NO_BROKER_EPOCH, life=lives.get(i, ""), tail_doubt="")
            for i, b in base.brokers.items()
        },
        topics={},
        topic_ids={},
        unfinished=[],
    )
    out = RebuiltImage(image)
    notes = out.notes
    notes += notes_of_older
    copies: dict[TopicPartition, list[InspectedReplica]] = {}
    for inspection in inspections:
        for copy in inspection.copies:
            copies.setdefault(copy.tp, []).append(copy)
        _note_damage(inspection, notes)
    topics = _topics(base, copies, notes)
    inspected = {s.broker_id for s in inspections}
    _require_all_inspections(topics, inspected, without, notes)
    for topic in topics:
        image.topics[topic.topic_id] = topic
        image.topic_ids[topic.name] = topic.topic_id
        former, topic.partitions = topic.partitions, {}
        empty = []
        for index in range(topic.partition_count):
            found = copies.get(TopicPartition(topic.topic_id, index), [])
            state = rebuilt_state(former.get(index), found, sorted(inspected))
            if image.metadata_version >= HANDOVER_LEVEL:
                state = with_history_replicas(state, found)
            topic.partitions[index] = state
            if not found:
                empty.append(index)
            elif state.replicas[: len(former[index].replicas)] != former[index].replicas if index in former else False:
                notes.append(
                    f"{topic.name}-{index}: broker {state.isr_ids} has the longest log and was not known as a replica"
                )
        if empty:
            notes.append(
                f"{topic.name}: no replica of partitions {_list(empty)} was found; these partitions start empty"
            )
    image.validate()
    return out


def rebuilt_state(
    former: PartitionState | None, copies: Sequence[InspectedReplica], brokers: Sequence[int]
) -> PartitionState:
    """The new state of a partition: no leader, and the ISR has the replicas with the highest log end. The controller elects a live one.

    Without any log all replicas are in the ISR, because all are empty. An observer's log is used only if there is no other.
    """
    if former is not None and former.observers:
        copies = [c for c in copies if c.broker_id not in former.observers] or copies
    best = max((c.reach for c in copies), default=None)
    holders = sorted(c.broker_id for c in copies if c.reach == best)
    replicas = former.replicas if former is not None and former.replicas else ()
    if not replicas:
        replicas = tuple(sorted(c.broker_id for c in copies)) or tuple(brokers[:1])
    replicas += tuple(b for b in holders if b not in replicas)
    isr = tuple(ReplicaIncarnation(b, NO_BROKER_EPOCH) for b in replicas if not copies or b in holders)
    epochs = [c.last_epoch for c in copies] + ([former.leader_epoch] if former is not None else [])
    state = former or PartitionState(replicas, isr)
    return replace(
        state,
        replicas=replicas,
        isr=isr,
        leader=NO_LEADER,
        leader_broker_epoch=NO_BROKER_EPOCH,
        elr=(),
        last_isr=(),
        observers=(),
        tail_start=-1,
        log_start_floor=-1,
        leader_epoch=max([0, *epochs]) + EPOCHS_ABOVE,
        partition_epoch=state.partition_epoch + EPOCHS_ABOVE,
    )


def with_history_replicas(state: PartitionState, copies: Sequence[InspectedReplica]) -> PartitionState:
    """Name the history replicas if the ISR's logs start above another log that reaches them.

    After an early hand-over since the backup, or with lost rows, `base` may not know them. Without this they would delete their history,
    because their leader's log starts later.
    """
    began = {c.broker_id: c.start for c in copies if c.broker_id in state.isr_ids}
    begins = max(began.values(), default=0)
    whole = tuple(sorted({c.broker_id for c in copies if c.start < begins <= c.end}))
    if state.handover_offset >= 0 or not whole or begins <= max(0, state.log_start_floor):
        return state
    return replace(state, handover_offset=begins, handover_epoch=state.leader_epoch, history_replicas=whole)


def _topics(
    base: Image, copies: Mapping[TopicPartition, Sequence[InspectedReplica]], notes: list[str]
) -> list[TopicState]:
    """The base's topics and those that only the disks know, one per name."""
    counts: dict[UUID, int] = {}
    names: dict[UUID, Counter[str]] = {}
    for tp, found in copies.items():
        counts[tp.topic_id] = max(counts.get(tp.topic_id, 0), tp.partition + 1)
        names.setdefault(tp.topic_id, Counter()).update(c.topic for c in found)
    out: dict[str, TopicState] = {}
    for topic in base.topics.values():
        if not topic.ready:
            continue  # its creation did not complete; the controller creates it again from its row
        count = counts.get(topic.topic_id, 0)
        if count > topic.partition_count:
            notes.append(
                f"{topic.name}: {count} partitions were found, {topic.partition_count} were known; all are kept"
            )
        out[topic.name] = replace(
            topic, partition_count=max(count, topic.partition_count), partitions=dict(topic.partitions)
        )
    for topic_id in sorted(counts, key=str):
        if topic_id in base.deleted or (topic_id in base.topics and base.topics[topic_id].ready):
            continue
        name = names[topic_id].most_common(1)[0][0]
        holder = out.get(name)
        if holder is not None and holder.topic_id in counts:
            notes.append(
                f"{name}: the disks contain topic ids {holder.topic_id} and {topic_id}; the first keeps the name, the other's directories are set aside"
            )
            continue
        if holder is not None:
            notes.append(
                f"{name}: the disks contain topic id {topic_id} and not {holder.topic_id}: the topic was created again, and {topic_id} is used"
            )
        configs = dict(KEEP_EVERYTHING) if name != GROUP_OFFSETS_TOPIC else {"cleanup.policy": "compact"}
        # Generation 0, so that a row of any generation is applied.
        out[name] = TopicState(topic_id, name, 0, configs, counts[topic_id], ready=True)
        notes.append(
            f"{name}: only the disks contain it; it has {counts[topic_id]} partitions; its configs are unknown, and retention is unlimited until they are set"
        )
    return [out[name] for name in sorted(out)]


def _older_copies(base: Image, inspections: Sequence[LogDirsInspection], accepted: frozenset[int]) -> list[str]:
    """Raises CannotRebuild for a directory that is an older copy, or the copy of a running broker's directory, unless it is accepted.

    The newest directory may still exist. `base` may be older than the directory (a backup, outdated rows). But a directory in which a
    later start was recorded has read the entry with that record.
    """
    notes = []
    for inspection in inspections:
        known = base.brokers.get(inspection.broker_id)
        behind = known is not None and bool(inspection.lives) and inspection.metadata_seq < base.seq
        later = (
            behind
            and known is not None
            and not broker_lives.continues_recorded_life(known.life, inspection.lives[0], inspection.lives[1:])
        )
        code = DirectoryDoubt.OLDER if later else inspection.doubt
        if not broker_lives.may_be_elsewhere(code):
            continue
        what, _ = broker_lives.explain_doubt(code)
        if inspection.broker_id not in accepted:
            raise CannotRebuild(
                f"broker {inspection.broker_id}, reason={code}: {what} Restore its newest directory and try again, or use "
                f"--older {inspection.broker_id} to accept this one: records that only the newest one contains are lost"
            )
        notes.append(f"broker {inspection.broker_id}: accepted although reason={code}: {what}")
    return notes


def _require_all_inspections(
    topics: Sequence[TopicState], inspected: set[int], without: frozenset[int], notes: list[str]
) -> None:
    missing: dict[int, list[str]] = {}
    for topic in topics:
        for index, state in topic.partitions.items():
            for broker_id in {*state.replicas, *state.history_replicas} - inspected:
                missing.setdefault(broker_id, []).append(f"{topic.name}-{index}")
    missing_brokers = sorted(missing.keys() - without)
    if missing_brokers:
        few = _list(sorted(missing[missing_brokers[0]]))
        raise CannotRebuild(
            f"there is no inspection of brokers {missing_brokers}, and broker {missing_brokers[0]} may have the only copy of acknowledged records in {few}; "
            f"inspect them, or use --without {missing_brokers[0]} if it is permanently lost"
        )
    for broker_id in sorted(missing.keys() & without):
        notes.append(
            f"broker {broker_id} is omitted: records of {_list(sorted(missing[broker_id]))} that only it had are lost, and are truncated if it returns"
        )


def _note_damage(inspection: LogDirsInspection, notes: list[str]) -> None:
    broker = f"broker {inspection.broker_id}"
    if inspection.lost:
        notes.append(f"{broker}: directories that contained records are missing: {_list(inspection.lost)}")
    if not inspection.trusted and inspection.copies:
        reason = (
            broker_lives.explain_doubt(inspection.doubt)[0]
            if inspection.doubt
            else "power loss, I/O error or missing directory."
        )
        notes.append(f"{broker}: {reason} Records that it acknowledged alone and did not flush may be lost")
    if inspection.strays:
        notes.append(f"{broker}: directories that were set aside earlier are ignored: {_list(inspection.strays)}")


def _list(names: Sequence[object], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(str(n) for n in names[:most]) + more
