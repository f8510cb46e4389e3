"""A new beginning for the metadata log: what is known of the topics, and the brokers' own logs, make an image.

Laws: who leads and who is in sync is read from the logs alone, whatever an older image says: of all copies the one with the highest (last
epoch, end) holds all that was ever acknowledged, as every leader did; it and its equals are the ISR. Epochs and numbers begin above all that
anybody has seen. Absence never deletes. Pure. Called by `restore` and `rebuild`. Must not come in: files, rows, ZooKeeper.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from brokerd.cluster.image import Image
from brokerd.cluster.levels import ARCHIVE_LEVEL, LEVEL_MIN
from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    NO_INCARNATION,
    NO_LEADER,
    PartitionState,
    Seat,
    TopicPartition,
    TopicState,
)

SURVEY_FORMAT = 1
EPOCHS_ABOVE = 1_000
"""Elections and changes that nobody noted before the end: new epochs begin so far above the highest that was seen."""
NUMBERS_ABOVE = 1_000_000
"""Likewise entries of the log, and what some process may still hold in memory."""
KEEP_EVERYTHING = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Of a topic that only the disks know: nobody can say what it was set to, so nothing of it may go."""


class CannotRebuild(Exception):
    """The text says what contradicts what, and what would help."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A partition's log on one broker, as its own start would find it: from `start` to `end`, the offset after its last record."""

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
class Survey:
    """One broker's disks (`brokerd.survey`). `trusted`: nothing of what it wrote can be missing."""

    broker_id: int
    cluster_id: str
    metadata_seq: int
    trusted: bool = True
    copies: tuple[Copy, ...] = ()
    lost: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()

    @staticmethod
    def decode(text: str) -> Survey:
        """Raises ValueError for what no survey of this program's kind wrote."""
        try:
            body: dict[str, Any] = json.loads(text)
            if body["format"] != SURVEY_FORMAT:
                raise ValueError(f"a survey of format {body['format']}, here {SURVEY_FORMAT} is read")
            broker_id = int(body["broker_id"])
            copies = tuple(
                Copy(broker_id, c["topic"], TopicPartition(UUID(c["topic_id"]), c["partition"]), c["last_epoch"], c["end"],
                     c["high_watermark"], c.get("start", 0))
                for c in body["copies"]
            )  # fmt: skip
            return Survey(
                broker_id, body["cluster_id"], body["metadata_seq"], body["trusted"], copies,
                tuple(body["lost"]), tuple(body["strays"]),
            )  # fmt: skip
        except (KeyError, TypeError) as e:
            raise ValueError(f"this is no survey of a broker's disks: {e!r}") from e


@dataclass(slots=True)
class Rebuilt:
    """`notes` are sentences that a person should read: what could not be proved, what was found that nobody knew."""

    image: Image
    notes: list[str] = field(default_factory=list)


def cluster_of(surveys: Iterable[Survey], known: str) -> str:
    """The cluster that all disks belong to. Raises CannotRebuild when they, or what else is known, disagree."""
    found = {s.cluster_id for s in surveys if s.cluster_id}
    if len(found) > 1:
        raise CannotRebuild(f"the disks belong to several clusters: {', '.join(sorted(found))}")
    if found and known and found != {known}:
        raise CannotRebuild(f"the disks belong to cluster {found.pop()}, what is to be put back to cluster {known}")
    if not found and not known:
        raise CannotRebuild("neither the disks nor the database know of any cluster; there is nothing to rebuild")
    return found.pop() if found else known


def rebuild(
    base: Image,
    surveys: Sequence[Survey],
    *,
    chain_hash: str,
    without: frozenset[int] = frozenset(),
    epochs_seen: int = 0,
    seq_seen: int = 0,
) -> Rebuilt:
    """`base` says which topics there are, with configs, and where partitions should be; its leaders and ISRs count for nothing.

    `without`: brokers that are known to be gone; any other that should hold a copy must be among `surveys`. `epochs_seen`: the highest epoch
    of a controller, `seq_seen` the highest number of an entry that anybody knows besides. Raises CannotRebuild.
    """
    cluster_id = cluster_of(surveys, base.cluster_id)
    # Whatever else the base knows goes over as it is.
    image = replace(
        base, cluster_id=cluster_id, metadata_version=max(base.metadata_version, LEVEL_MIN), chain_hash=chain_hash,
        seq=max([base.seq, seq_seen, *(s.metadata_seq for s in surveys)]) + NUMBERS_ABOVE,
        controller_epoch=max(base.controller_epoch, epochs_seen) + EPOCHS_ABOVE,
        brokers={i: replace(b, alive=False, incarnation=NO_INCARNATION) for i, b in base.brokers.items()},
        topics={}, topic_ids={}, held=[],
    )  # fmt: skip
    out = Rebuilt(image)
    notes = out.notes
    copies: dict[TopicPartition, list[Copy]] = {}
    for survey in surveys:
        for copy in survey.copies:
            copies.setdefault(copy.tp, []).append(copy)
        _complain(survey, notes)
    topics = _topics(base, copies, notes)
    surveyed = {s.broker_id for s in surveys}
    _nobody_missing(topics, surveyed, without, notes)
    for topic in topics:
        image.topics[topic.topic_id] = topic
        image.topic_ids[topic.name] = topic.topic_id
        known, topic.partitions = topic.partitions, {}
        empty = []
        for index in range(topic.partition_count):
            found = copies.get(TopicPartition(topic.topic_id, index), [])
            state = seated(known.get(index), found, sorted(surveyed))
            if image.metadata_version >= ARCHIVE_LEVEL:
                state = with_old_records(state, found)
            topic.partitions[index] = state
            if not found:
                empty.append(index)
            elif state.replicas[: len(known[index].replicas)] != known[index].replicas if index in known else False:
                notes.append(
                    f"{topic.name}-{index}: broker {state.isr_ids} holds the longest log and was not known as a replica"
                )
        if empty:
            notes.append(
                f"{topic.name}: no copy of partitions {_list(empty)} was found; they begin empty, unless there never was a record"
            )
    image.validate()
    return out


def seated(known: PartitionState | None, copies: Sequence[Copy], brokers: Sequence[int]) -> PartitionState:
    """The state a partition begins anew with: without leader, its ISR those whose logs reach farthest. The controller elects one who is back.

    No copy at all: all replicas are equally empty. A copy of the tail alone, which counted for nothing before, does so only where there is no other.
    """
    if known is not None and known.observers:
        copies = [c for c in copies if c.broker_id not in known.observers] or copies
    best = max((c.reach for c in copies), default=None)
    holders = sorted(c.broker_id for c in copies if c.reach == best)
    replicas = known.replicas if known is not None and known.replicas else ()
    if not replicas:
        replicas = tuple(sorted(c.broker_id for c in copies)) or tuple(brokers[:1])
    replicas += tuple(b for b in holders if b not in replicas)
    isr = tuple(Seat(b, NO_INCARNATION) for b in replicas if not copies or b in holders)
    epochs = [c.last_epoch for c in copies] + ([known.leader_epoch] if known is not None else [])
    state = known or PartitionState(replicas, isr)
    return replace(
        state,
        replicas=replicas, isr=isr, leader=NO_LEADER, leader_incarnation=NO_INCARNATION, elr=(), last_isr=(),
        observers=(), tail_start=-1, log_start_floor=-1,
        leader_epoch=max([0, *epochs]) + EPOCHS_ABOVE, partition_epoch=state.partition_epoch + EPOCHS_ABOVE,
    )  # fmt: skip


def with_old_records(state: PartitionState, copies: Sequence[Copy]) -> PartitionState:
    """Where those that reach farthest begin later than another copy that reaches them, nobody may have known that it holds what is older (a hand-over
    since the backup, or rows that are lost): it does now, or it would delete that as its leader's log begins later."""
    began = {c.broker_id: c.start for c in copies if c.broker_id in state.isr_ids}
    begins = max(began.values(), default=0)
    whole = tuple(sorted({c.broker_id for c in copies if c.start < begins <= c.end}))
    if state.archive_start >= 0 or not whole or begins <= max(0, state.log_start_floor):
        return state
    return replace(state, archive_start=begins, archive_epoch=state.leader_epoch, holders=whole)


def _topics(base: Image, copies: Mapping[TopicPartition, Sequence[Copy]], notes: list[str]) -> list[TopicState]:
    """The base's topics and those that only the disks know, one per name."""
    counts: dict[UUID, int] = {}
    names: dict[UUID, Counter[str]] = {}
    for tp, found in copies.items():
        counts[tp.topic_id] = max(counts.get(tp.topic_id, 0), tp.partition + 1)
        names.setdefault(tp.topic_id, Counter()).update(c.topic for c in found)
    out: dict[str, TopicState] = {}
    for topic in base.topics.values():
        if not topic.ready:
            continue  # its creation never ended; the row that wants it makes it anew
        count = counts.get(topic.topic_id, 0)
        if count > topic.partition_count:
            notes.append(
                f"{topic.name}: {count} partitions were found, {topic.partition_count} were known; it keeps all"
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
                f"{name}: topic id {topic_id} is on disks as well as {holder.topic_id}, which keeps the name; the other's folders are set aside"
            )
            continue
        if holder is not None:
            notes.append(
                f"{name}: of topic id {holder.topic_id} there is no copy, of {topic_id} there is: it was created anew since, and this one counts"
            )
        configs = dict(KEEP_EVERYTHING) if name != GROUP_OFFSETS_TOPIC else {"cleanup.policy": "compact"}
        # Generation 0: a row that wants it, in whatever generation, is applied to it.
        out[name] = TopicState(topic_id, name, 0, configs, counts[topic_id], ready=True)
        notes.append(
            f"{name}: only the disks know it; it has {counts[topic_id]} partitions, its configs are unknown and it keeps everything until they are set"
        )
    return [out[name] for name in sorted(out)]


def _nobody_missing(
    topics: Sequence[TopicState], surveyed: set[int], without: frozenset[int], notes: list[str]
) -> None:
    missing: dict[int, list[str]] = {}
    for topic in topics:
        for index, state in topic.partitions.items():
            for broker_id in {*state.replicas, *state.holders} - surveyed:
                missing.setdefault(broker_id, []).append(f"{topic.name}-{index}")
    unsaid = sorted(missing.keys() - without)
    if unsaid:
        few = _list(sorted(missing[unsaid[0]]))
        raise CannotRebuild(
            f"the disks of brokers {unsaid} were not surveyed, and broker {unsaid[0]} may hold the only copy of what was acknowledged in {few}; "
            f"survey them, or say --without {unsaid[0]} if it is gone for good"
        )
    for broker_id in sorted(missing.keys() & without):
        notes.append(
            f"broker {broker_id} is left out: what only it held of {_list(sorted(missing[broker_id]))} is lost, and is cut from its log if it comes back"
        )


def _complain(survey: Survey, notes: list[str]) -> None:
    who = f"broker {survey.broker_id}"
    if survey.lost:
        notes.append(f"{who}: folders that held records are gone: {_list(survey.lost)}")
    if not survey.trusted and survey.copies:
        notes.append(
            f"{who}: it lost power, had an I/O error or lacks a directory: what it alone had acknowledged and not flushed cannot be known"
        )
    if survey.strays:
        notes.append(f"{who}: folders that were set aside earlier are not looked at: {_list(survey.strays)}")


def _list(names: Sequence[object], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(str(n) for n in names[:most]) + more
