"""Paths and content of the znodes. All paths are defined here."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from brokerd.cluster.levels import LEVELS_BY_DEFAULT, Range
from brokerd.cluster.model import Endpoint, ReplicaIncarnation, TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKERS = "/brokers/ids"
PROPOSALS = "/isr_proposals"
OFFLINE = "/offline_replicas"
DAMAGE_REPORTS = "/replica_findings"
REQUESTS = "/requests"
METADATA = "/metadata"
LOG = "/metadata/log"
HEAD = "/metadata/head"
SNAPSHOT = "/metadata/snapshot"
SNAPSHOTS = "/metadata/snapshots"

PERSISTENT = ("/brokers", BROKERS, PROPOSALS, OFFLINE, DAMAGE_REPORTS, REQUESTS, METADATA, LOG, SNAPSHOTS)
"""Persistent znodes, created in this order by the first process of the cluster."""

CORRUPT, LOST, DIVERGED = "corrupt", "lost", "diverged"
"""Kinds of damage to a replica: corrupt data, a replica that was missing at start-up, a log that diverged from its leader below the high watermark."""

DAMAGE_REPORTS_MAX = 500
"""Maximum number of damage reports in one znode."""

PROPOSALS_MAX = 2_000
"""Maximum number of ISR proposals in one znode. The others follow after these are answered. Keeps the znode far below ZooKeeper's limit of 1 MB."""


def broker(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def proposals(broker_id: int) -> str:
    return f"{PROPOSALS}/{broker_id}"


def offline(broker_id: int) -> str:
    return f"{OFFLINE}/{broker_id}"


def damage_reports(broker_id: int) -> str:
    return f"{DAMAGE_REPORTS}/{broker_id}"


def request(request_id: str) -> str:
    return f"{REQUESTS}/{request_id}"


def entry(seq: int) -> str:
    return f"{LOG}/{seq:020d}"


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


@dataclass(frozen=True, slots=True)
class Registration:
    """The content of `/brokers/ids/<id>`. `broker_epoch` is the broker epoch, the czxid of the znode, set by the reader.

    `metadata_levels`: the lowest and the highest level of the metadata log that the broker reads.
    """

    broker_id: int
    broker_uuid: str
    host: str
    port: int
    rack: str | None
    failure_domain: str | None
    tail_intact: bool
    cluster_id: str | None = None
    broker_epoch: int = -1
    metadata_levels: Range = LEVELS_BY_DEFAULT
    endpoints: tuple[Endpoint, ...] = ()
    life: str = ""
    lives_before: tuple[str, ...] = ()
    """Earlier starts with the same directory, back to the last one that the broker knows to be recorded."""
    tail_doubt: str = ""

    def encode(self) -> bytes:
        return to_json(
            {
                "broker_id": self.broker_id,
                "broker_uuid": self.broker_uuid,
                "host": self.host,
                "port": self.port,
                "rack": self.rack,
                "failure_domain": self.failure_domain,
                "tail_intact": self.tail_intact,
                "cluster_id": self.cluster_id,
                "metadata_levels": list(self.metadata_levels),
                "endpoints": [list(e) for e in self.endpoints],
                "life": self.life,
                "lives_before": list(self.lives_before),
                "tail_doubt": self.tail_doubt,
            }
        )

    @staticmethod
    def decode(data: bytes, broker_epoch: int) -> Registration:
        """Raises ValueError or KeyError for invalid bytes. Additional keys of a newer broker are ignored."""
        body = json.loads(data)
        low, high = body.get("metadata_levels", LEVELS_BY_DEFAULT)
        return Registration(
            body["broker_id"],
            body["broker_uuid"],
            body["host"],
            body["port"],
            body["rack"],
            body["failure_domain"],
            body["tail_intact"],
            body.get("cluster_id"),
            broker_epoch,
            (low, high),
            tuple(Endpoint(*e) for e in body.get("endpoints", ())),
            body.get("life", ""),
            tuple(body.get("lives_before", ())),
            body.get("tail_doubt", ""),
        )


@dataclass(frozen=True, slots=True)
class IsrProposal:
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[ReplicaIncarnation, ...]


@dataclass(frozen=True, slots=True)
class BootstrapProposal:
    """The offset at which the observers of a partition start to replicate. It is committed and the base offset of a segment of the leader."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class StartProposal:
    """The new log start offset of a partition with a hand-over offset, after retention or DeleteRecords."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class ResetProposal:
    """A replica that must be deleted and fetched again, because its log starts above the leader's log start offset. This is the only reason why the
    replica cannot join the ISR."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    replica: ReplicaIncarnation


@dataclass(frozen=True, slots=True)
class LogEndReport:
    """The end of a replica's log in the vote of a partition with majority acknowledgements. `leader_epoch` is the epoch of the vote."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    last_epoch: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Proposals:
    """All proposals of a broker for the partitions that it leads, and its reports in votes."""

    isrs: Sequence[IsrProposal] = ()
    bootstrap_offsets: Sequence[BootstrapProposal] = ()
    starts: Sequence[StartProposal] = ()
    resets: Sequence[ResetProposal] = ()
    log_ends: Sequence[LogEndReport] = ()


def encode_proposals(broker_epoch: int, desired: Proposals) -> bytes:
    """Older controllers ignore `bootstrap_offsets` (stored as `seeds`), `starts` and `resets`. The first two exist only at metadata levels
    that such a controller cannot read; without `resets` a replica stays out of sync. `log_ends` exist only since the level of majority acknowledgements."""
    body: dict[str, object] = {
        "incarnation": broker_epoch,
        "proposals": [
            [str(p.topic_id), p.partition, p.leader_epoch, p.partition_epoch, [list(s) for s in p.isr]]
            for p in desired.isrs[:PROPOSALS_MAX]
        ],
    }
    for key, offsets in (("seeds", desired.bootstrap_offsets), ("starts", desired.starts)):
        if offsets:
            body[key] = [[str(s.topic_id), s.partition, s.leader_epoch, s.offset] for s in offsets[:PROPOSALS_MAX]]
    if desired.resets:
        body["resets"] = [
            [str(r.topic_id), r.partition, r.leader_epoch, list(r.replica)] for r in desired.resets[:PROPOSALS_MAX]
        ]
    if desired.log_ends:
        # In the same order on each broker, so that the first ones of all brokers belong to the same partitions.
        reported = sorted(desired.log_ends, key=lambda r: (r.topic_id, r.partition))
        body["log_ends"] = [
            [str(r.topic_id), r.partition, r.leader_epoch, r.last_epoch, r.log_end] for r in reported[:PROPOSALS_MAX]
        ]
    return to_json(body)


def decode_proposals(data: bytes) -> tuple[int, Proposals]:
    body = json.loads(data)
    isrs = tuple(
        IsrProposal(UUID(t), p, le, pe, tuple(ReplicaIncarnation(*s) for s in isr))
        for t, p, le, pe, isr in body["proposals"]
    )
    bootstrap_offsets = tuple(BootstrapProposal(UUID(t), p, e, o) for t, p, e, o in body.get("seeds", ()))
    starts = tuple(StartProposal(UUID(t), p, e, o) for t, p, e, o in body.get("starts", ()))
    resets = tuple(ResetProposal(UUID(t), p, e, ReplicaIncarnation(*s)) for t, p, e, s in body.get("resets", ()))
    log_ends = tuple(LogEndReport(UUID(t), p, *rest) for t, p, *rest in body.get("log_ends", ()))
    return body["incarnation"], Proposals(isrs, bootstrap_offsets, starts, resets, log_ends)


def encode_offline(broker_epoch: int, partitions: Iterable[TopicPartition]) -> bytes:
    """Encode offline replicas as compressed JSON, because a log directory may contain ten thousand replicas."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(str(tp.topic_id), []).append(tp.partition)
    return zlib.compress(to_json({"incarnation": broker_epoch, "offline": topics}))


def decode_offline(data: bytes) -> tuple[int, frozenset[TopicPartition]]:
    """Raises ValueError, KeyError or zlib.error for invalid bytes."""
    body = json.loads(zlib.decompress(data))
    return body["incarnation"], frozenset(
        TopicPartition(UUID(topic), p) for topic, indexes in body["offline"].items() for p in indexes
    )


@dataclass(frozen=True, slots=True)
class DamageReport:
    """Damage of one replica, reported by its broker. `kind` is CORRUPT, LOST or DIVERGED; `text` is for operators."""

    tp: TopicPartition
    kind: str
    text: str


def encode_damage_reports(broker_epoch: int, reports: Iterable[DamageReport]) -> bytes:
    rows = [[str(f.tp.topic_id), f.tp.partition, f.kind, f.text] for f in reports]
    return zlib.compress(to_json({"incarnation": broker_epoch, "findings": rows}))


def decode_damage_reports(data: bytes) -> tuple[int, tuple[DamageReport, ...]]:
    """Raises ValueError, KeyError or zlib.error for invalid bytes."""
    body = json.loads(zlib.decompress(data))
    return body["incarnation"], tuple(
        DamageReport(TopicPartition(UUID(topic), partition), kind, text)
        for topic, partition, kind, text in body["findings"]
    )
