"""The znodes: paths, and what stands in them. Law: a path is spelled here and nowhere else."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brokerd.cluster.levels import UNSAID, Range
from brokerd.cluster.model import Endpoint, Seat, TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKERS = "/brokers/ids"
PROPOSALS = "/isr_proposals"
OFFLINE = "/offline_replicas"
FINDINGS = "/replica_findings"
REQUESTS = "/requests"
METADATA = "/metadata"
LOG = "/metadata/log"
HEAD = "/metadata/head"
SNAPSHOT = "/metadata/snapshot"
SNAPSHOTS = "/metadata/snapshots"

PERSISTENT = ("/brokers", BROKERS, PROPOSALS, OFFLINE, FINDINGS, REQUESTS, METADATA, LOG, SNAPSHOTS)
"""Created once, in this order, by whoever comes first."""

RAISE_LEVEL = "raise_metadata_level"
"""Kind of the request, by a person, to raise the log's level: {"level": n}, or {} for the highest."""

ELECT = "elect_leaders"
"""Kind of a client's request for elections: {"unclean": .., "topics": [{"name": .., "partitions": [..]}]}; the answer has [partition, Kafka's code] for each."""

UPDATE_FEATURES = "update_features"
"""Kind of a client's request to finalise features: {"topics": [{"name": .., "level": .., "upgrade_type": ..}]}, all of them or none."""

CORRUPT, LOST, DIVERGED = "corrupt", "lost", "diverged"
"""What a broker finds of its own copies: damaged bytes, a copy that was gone at the start, one that parted from its leader below what was committed."""

FINDINGS_MAX = 500
"""Findings in one znode; more than these are no news."""

PROPOSALS_MAX = 2_000
"""ISR proposals in one znode; the rest follows when these are answered. Keeps the node far below ZooKeeper's 1 MB."""


def broker(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def proposals(broker_id: int) -> str:
    return f"{PROPOSALS}/{broker_id}"


def offline(broker_id: int) -> str:
    return f"{OFFLINE}/{broker_id}"


def findings(broker_id: int) -> str:
    return f"{FINDINGS}/{broker_id}"


def request(request_id: str) -> str:
    return f"{REQUESTS}/{request_id}"


def entry(seq: int) -> str:
    return f"{LOG}/{seq:020d}"


def to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself in `/brokers/ids/<id>`; `incarnation` is the node's czxid, filled in by the reader.

    `metadata_levels`: the lowest and the highest level of the metadata log that it reads.
    """

    broker_id: int
    broker_uuid: str
    host: str
    port: int
    rack: str | None
    failure_domain: str | None
    tail_intact: bool
    cluster_id: str | None = None
    incarnation: int = -1
    metadata_levels: Range = UNSAID
    endpoints: tuple[Endpoint, ...] = ()

    def encode(self) -> bytes:
        return to_json(
            {
                "broker_id": self.broker_id, "broker_uuid": self.broker_uuid, "host": self.host, "port": self.port,
                "rack": self.rack, "failure_domain": self.failure_domain, "tail_intact": self.tail_intact,
                "cluster_id": self.cluster_id, "metadata_levels": list(self.metadata_levels),
                "endpoints": [list(e) for e in self.endpoints],
            }
        )  # fmt: skip

    @staticmethod
    def decode(data: bytes, incarnation: int) -> Registration:
        """Raises ValueError or KeyError for bytes that no broker of ours wrote. What a newer one says besides is passed over."""
        body = json.loads(data)
        low, high = body.get("metadata_levels", UNSAID)
        return Registration(
            body["broker_id"], body["broker_uuid"], body["host"], body["port"], body["rack"], body["failure_domain"],
            body["tail_intact"], body.get("cluster_id"), incarnation, (low, high),
            tuple(Endpoint(*e) for e in body.get("endpoints", ())),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class IsrProposal:
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class SeedProposal:
    """Where the copies of a partition's observers are to begin: committed, and at the beginning of a segment of its leader's log."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class StartProposal:
    """Where a partition with an archive begins from now on: what lies below was let go by retention or by a client's word."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class ResetProposal:
    """A copy that is to be thrown away and fetched anew: all that keeps it from the ISR is that its log starts above its leader's."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    seat: Seat


@dataclass(frozen=True, slots=True)
class Proposals:
    """All that a broker asks for of what it leads."""

    isrs: Sequence[IsrProposal] = ()
    seeds: Sequence[SeedProposal] = ()
    starts: Sequence[StartProposal] = ()
    resets: Sequence[ResetProposal] = ()


def encode_proposals(incarnation: int, wanted: Proposals) -> bytes:
    """A controller of before there were seeds, or starts, passes over them: it cannot read a log with observers, or archives, either. One of before there
    were resets leaves such a copy where it is."""
    body: dict[str, Any] = {
        "incarnation": incarnation,
        "proposals": [
            [str(p.topic_id), p.partition, p.leader_epoch, p.partition_epoch, [list(s) for s in p.isr]]
            for p in wanted.isrs[:PROPOSALS_MAX]
        ],
    }
    for key, offsets in (("seeds", wanted.seeds), ("starts", wanted.starts)):
        if offsets:
            body[key] = [[str(s.topic_id), s.partition, s.leader_epoch, s.offset] for s in offsets[:PROPOSALS_MAX]]
    if wanted.resets:
        body["resets"] = [
            [str(r.topic_id), r.partition, r.leader_epoch, list(r.seat)] for r in wanted.resets[:PROPOSALS_MAX]
        ]
    return to_json(body)


def decode_proposals(data: bytes) -> tuple[int, Proposals]:
    body = json.loads(data)
    isrs = tuple(
        IsrProposal(UUID(t), p, le, pe, tuple(Seat(*s) for s in isr)) for t, p, le, pe, isr in body["proposals"]
    )
    seeds = tuple(SeedProposal(UUID(t), p, e, o) for t, p, e, o in body.get("seeds", ()))
    starts = tuple(StartProposal(UUID(t), p, e, o) for t, p, e, o in body.get("starts", ()))
    resets = tuple(ResetProposal(UUID(t), p, e, Seat(*s)) for t, p, e, s in body.get("resets", ()))
    return body["incarnation"], Proposals(isrs, seeds, starts, resets)


def encode_offline(incarnation: int, partitions: Iterable[TopicPartition]) -> bytes:
    """Compressed: a directory may hold ten thousand copies."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(str(tp.topic_id), []).append(tp.partition)
    return zlib.compress(to_json({"incarnation": incarnation, "offline": topics}))


def decode_offline(data: bytes) -> tuple[int, frozenset[TopicPartition]]:
    """Raises ValueError, KeyError or zlib.error for bytes that no broker of ours wrote."""
    body = json.loads(zlib.decompress(data))
    return body["incarnation"], frozenset(
        TopicPartition(UUID(topic), p) for topic, indexes in body["offline"].items() for p in indexes
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """What a broker says of one of its copies; `kind` is CORRUPT, LOST or DIVERGED."""

    tp: TopicPartition
    kind: str
    text: str


def encode_findings(incarnation: int, found: Iterable[Finding]) -> bytes:
    rows = [[str(f.tp.topic_id), f.tp.partition, f.kind, f.text] for f in found]
    return zlib.compress(to_json({"incarnation": incarnation, "findings": rows}))


def decode_findings(data: bytes) -> tuple[int, tuple[Finding, ...]]:
    """Raises ValueError, KeyError or zlib.error for bytes that no broker of ours wrote."""
    body = json.loads(zlib.decompress(data))
    return body["incarnation"], tuple(
        Finding(TopicPartition(UUID(topic), partition), kind, text) for topic, partition, kind, text in body["findings"]
    )


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """What a broker asks the controller on a client's behalf."""

    request_id: str
    broker_id: int
    incarnation: int
    kind: str
    payload: Mapping[str, Any]

    def encode(self) -> bytes:
        return to_json(
            {"broker_id": self.broker_id, "incarnation": self.incarnation, "kind": self.kind, "payload": self.payload}
        )

    @staticmethod
    def decode(request_id: str, data: bytes) -> ForwardedRequest:
        body = json.loads(data)
        return ForwardedRequest(request_id, body["broker_id"], body["incarnation"], body["kind"], body["payload"])
