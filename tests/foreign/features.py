"""The tested features: one row per feature, in the order of the page, with what a "yes" proves.

The topic of a program is `SCENE_PREFIX` + id. The runner creates it with the partitions, configs and records given here (`filled` records: value =
number, timestamp `FIRST_MS` + 1000 x number, partition = number modulo partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FIRST_MS = 1_700_000_000_000
"""Timestamp of the first record of a filled topic; records are a second apart."""


@dataclass(frozen=True, slots=True)
class RouteBinding:
    """`target`: suffix of the target topic. `matching`: the numbers of the records that match; the value of a record is v and its number."""

    target: str
    match: Mapping[str, Any]
    matching: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    id: str
    title: str
    shown: str
    """The meaning of a yes."""
    partitions: int = 1
    """Partitions of its topic; 0 creates no topic."""
    filled: int = 0
    value_bytes: int = 0
    """Values are padded with dots to this size."""
    also: tuple[str, ...] = ()
    """Suffixes of further topics with the same content."""
    empty: tuple[str, ...] = ()
    """Suffixes of further empty topics."""
    fronts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Suffixes of further empty topics, with the configs of each; `{topic}` is the name of the topic."""
    route: tuple[RouteBinding, ...] = ()
    """Bindings of a route from the topic to further empty topics. The log of each target must hold the matching records once and in order."""
    configs: Mapping[str, str] = field(default_factory=dict)
    codec: int = -1
    """The compression that the batches on the disks must have."""
    once: bool = False
    """The log must hold a producer id in each batch and 0..n-1 once and in order."""
    segments_min: int = 0
    kill: bool = False
    """The topic's leader is killed (SIGKILL) while the program writes; what was acknowledged must be in the log."""
    spark: bool = False
    """A feature for Spark only."""


MEMBERS = (
    "two members share four partitions, one leaves, the other gets all partitions; together they read every record"
)
ROUTE = (
    RouteBinding("-key", {"kind": "key", "value": "paid"}, (0, 3, 6, 9)),
    RouteBinding("-pattern", {"kind": "pattern", "value": "eu.#"}, (1, 4, 7, 10)),
    RouteBinding(
        "-headers", {"kind": "headers_any", "headers": [{"name": "fraud", "value": "yes"}]}, (0, 2, 4, 6, 8, 10)
    ),
)

FEATURES: tuple[Feature, ...] = (
    Feature("acks-0", "produce, acks=0", "100 records arrive in order although nothing is acknowledged"),
    Feature("acks-1", "produce, acks=1", "100 records are acknowledged and read back in order"),
    Feature("acks-all", "produce, acks=all", "100 records are acknowledged and read back in order"),
    Feature("gzip", "gzip", "500 records are read back, and each batch on the disk is gzip", codec=1),
    Feature("snappy", "snappy", "the same with snappy", codec=2),
    Feature("lz4", "lz4", "the same with lz4", codec=3),
    Feature("zstd", "zstd", "the same with zstd", codec=4),
    Feature("headers", "headers", "two headers with one name and an empty header are read back in order"),
    Feature("delayed", "delayed messages", "by their header, three records arrive in the order of their times, none early; one that a tombstone cancelled does not",
            fronts={".delay": {"weir.delay.topic": "{topic}"}}),
    Feature("half", "half messages", "of three, two are committed and one is rolled back: the committed ones arrive, in the order of the decisions",
            fronts={".half": {"weir.half.topic": "{topic}"}, ".half.check": {}, ".half.expired": {}}),
    Feature("routes", "routes", "of twelve records, bindings by key, by pattern and by header copy the matching ones to three topics, once and in order, with key, value and headers unchanged",
            route=ROUTE),
    Feature("share-letters", "dead letters of a share group (KIP-1191)", "of six records three are rejected and one is released five times; exactly these four are in the topic of dead letters, with cause, place, group and number of deliveries"),
    Feature("nulls", "null keys and values", "null keys and values are read back as null, empty ones as empty (where the client distinguishes them)"),
    Feature("big", "records of 1 MB", "1,000,000 bytes are read back byte for byte"),
    Feature("too-large", "a record that is too large", "a topic with a limit of 100,000 bytes rejects 500,000 as too large; the next record is written",
            configs={"max.message.bytes": "100000"}),
    Feature("idempotent", "idempotent producer", "500 records are in the log exactly once, in order, each batch with a producer id", once=True),
    Feature("transactions", "transactions", "of two commits and an abort, read_committed shows the commits, read_uncommitted all"),
    Feature("transaction-offsets", "offsets within a transaction", "read, write, commit: an abort commits no offset, a commit commits records and offset together",
            filled=100, empty=("-out",)),
    Feature("fencing", "a zombie is fenced", "a second producer with the same transactional id aborts the transaction of the first one and fences it"),
    Feature("leader-killed", "the leader is killed (kill -9) during produce", "acks=all over an election: all acknowledged records are in the log (once and in order where the producer is idempotent)",
            configs={"min.insync.replicas": "2"}, kill=True),
    Feature("majority-acks", "majority acknowledgements", "the same with `weir.majority.acks.enable`; then 600 records are read back in order, without the control records that the leaders have written",
            configs={"weir.majority.acks.enable": "true"}, kill=True),
    Feature("from-start", "read from the start", "3,000 records of 1,000 bytes over ten segments or more are read in order", filled=3000, value_bytes=1000,
            configs={"segment.bytes": "131072"}, segments_min=10),
    Feature("group", "group with rebalances", MEMBERS, 4, 400),
    Feature("assignor-range", "assignor range", MEMBERS, 4, 400),
    Feature("assignor-roundrobin", "assignor round robin", MEMBERS, 4, 400),
    Feature("assignor-sticky", "assignor sticky", MEMBERS, 4, 400),
    Feature("assignor-cooperative", "assignor cooperative sticky", MEMBERS + "; the first member never revokes the partitions that it keeps", 4, 400),
    Feature("static", "static membership", "a member that returns with its instance id gets its partitions back, without a rebalance for the other member", 4, 400),
    Feature("new-protocol", "the consumer group protocol (KIP-848)", MEMBERS, 4, 400),
    Feature("commits", "commits", "40 records are committed; the group's next consumer starts at the 41st", filled=100),
    Feature("resets", "resets", "earliest, latest, none (where the client has it), and an offset out of range", filled=100),
    Feature("timestamps", "seek by timestamp", "the offset of a timestamp is found and read from; there is none after the last record", filled=100),
    Feature("pause", "pause and resume", "a paused partition returns no records, and all of them after it is resumed", 2, 200),
    Feature("pattern", "subscription by pattern", "two topics are found by a regular expression and read", filled=50, also=("-two",)),
    Feature("topics", "create, describe, grow, delete topics", "with configs; a second creation is rejected as such; two partitions become five; the topic is deleted", 0),
    Feature("configs", "describe and alter configs", "a topic config is set and deleted, each time with its source; broker configs are described", 1),
    Feature("groups", "list, describe, delete groups", "state and members are described; an active group is not deleted, an empty one is", filled=10),
    Feature("group-offsets", "list, alter, delete a group's offsets", "40, then 10, then none", filled=100),
    Feature("list-offsets", "list offsets", "earliest, latest, by time, of the newest record", filled=100),
    Feature("delete-records", "delete records", "the log starts at 30", filled=100),
    Feature("cluster", "describe the cluster", "three brokers, one of them the controller, an id", 0),
    Feature("log-dirs", "describe log directories", "the size of the topic on each broker", filled=100),
    Feature("transactions-admin", "list and describe transactions, describe producers", "an open transaction is listed, with its partition and its producer"),
    Feature("scram", "SCRAM credentials", "written, described, deleted", 0),
    Feature("quotas", "client quotas", "written, described, removed", 0),
    Feature("reassign", "reassign partitions", "a partition moves to other brokers, and is listed meanwhile (or has moved already)", filled=100),
    Feature("elect", "elect leaders", "an election of the preferred leader is requested", filled=10),
    Feature("scram-tls", "SASL SCRAM-SHA-512 over TLS", "100 records are written and read through a group"),
    Feature("wrong-password", "a wrong password", "is reported as such, not by a time-out", 0),
    Feature("oauth", "SASL OAUTHBEARER over TLS", "with a signed token 100 records are written and read through a group; a token with the signature of another key is rejected"),
    Feature("mutual-tls", "mutual TLS, with a rule for principals", "a rule maps `CN=alice,O=Weir` to alice, who writes 100 records and reads them through a group; it maps another certificate to bob, who is rejected"),
    Feature("acls", "ACLs", "a principal without an ACL is rejected, and authorised after an ACL is created; the ACL is described and deleted"),
    Feature("streams", "Streams: word count, exactly_once_v2", "counts are exact, read with read_committed", partitions=4, empty=("-out",)),
    Feature("streams-group", "Streams: word count in a streams group (KIP-1071), exactly_once_v2", "two instances divide the tasks, one is killed and started again: counts are exact, read with read_committed; the group is listed, described and deleted", partitions=4, empty=("-out",)),
    Feature("spark-read", "read a batch", "columns, offsets, headers and timestamps of every record", 2, 200, spark=True),
    Feature("spark-read-range", "read a range", "startingOffsets and endingOffsets in JSON; startingTimestamp", 2, 200, spark=True),
    Feature("spark-stream", "read a stream", "availableNow with maxOffsetsPerTrigger, and again from its checkpoint: every record once", 2, 200, spark=True),
    Feature("spark-write", "write a batch", "keys, values, headers, a null value", spark=True),
    Feature("spark-copy", "stream from topic to topic", "every record arrives at least once (Spark's sink guarantees no more)", 2, 200, empty=("-out",), spark=True),
    Feature("spark-committed", "read_committed", "kafka.isolation.level hides aborted records", spark=True),
    Feature("spark-tls", "SASL SCRAM-SHA-512 over TLS", "written and read", spark=True),
)  # fmt: skip

BY_ID: dict[str, Feature] = {f.id: f for f in FEATURES}


def asked_of(spark: bool) -> list[Feature]:
    wanted: Callable[[Feature], bool] = lambda f: f.spark == spark  # noqa: E731
    return [f for f in FEATURES if wanted(f)]
