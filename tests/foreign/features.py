"""The questions: one row per feature, in the order of the page, with what a "yes" has shown.

A program finds its topic under `SCENE_PREFIX` + id, made by the runner with the partitions, configs and records given here (`filled` records: value =
number, timestamp `FIRST_MS` + 1000 x number, partition = number modulo partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

FIRST_MS = 1_700_000_000_000
"""Timestamp of the first record of a filled topic; records are a second apart."""


@dataclass(frozen=True, slots=True)
class Feature:
    id: str
    title: str
    shown: str
    """What a yes means."""
    partitions: int = 1
    """Of its topic; 0 makes none."""
    filled: int = 0
    value_bytes: int = 0
    """Values are padded with dots to this size."""
    also: tuple[str, ...] = ()
    """Endings of further topics, made and filled alike."""
    empty: tuple[str, ...] = ()
    """Endings of further topics, made and left empty."""
    configs: Mapping[str, str] = field(default_factory=dict)
    codec: int = -1
    """The compression that the batches on the disks must have."""
    once: bool = False
    """The log must hold a producer id in each batch and 0..n-1 once and in order."""
    segments_min: int = 0
    kill: bool = False
    """The topic's leader is killed (SIGKILL) while the program writes; what was acknowledged must be in the log."""
    spark: bool = False
    """A question for Spark alone."""


MEMBERS = "two members share four partitions, one leaves, the other has all again; between them they see every record"

FEATURES: tuple[Feature, ...] = (
    Feature("acks-0", "produce, acks=0", "100 records arrive in order although nothing is acknowledged"),
    Feature("acks-1", "produce, acks=1", "100 records are acknowledged and read back in order"),
    Feature("acks-all", "produce, acks=all", "100 records are acknowledged and read back in order"),
    Feature("gzip", "gzip", "500 records come back, and each batch on the disk is gzip", codec=1),
    Feature("snappy", "snappy", "the same with snappy", codec=2),
    Feature("lz4", "lz4", "the same with lz4", codec=3),
    Feature("zstd", "zstd", "the same with zstd", codec=4),
    Feature("headers", "headers", "a header twice under one name and an empty one come back in order"),
    Feature("nulls", "null keys and values", "null keys and values come back as null, empty ones as empty (where the client tells them apart)"),
    Feature("big", "records of 1 MB", "1,000,000 bytes come back byte for byte"),
    Feature("too-large", "a record that is too large", "500,000 bytes are refused as too large by a topic that takes 100,000; the next record arrives",
            configs={"max.message.bytes": "100000"}),
    Feature("idempotent", "idempotent producer", "500 records lie in the log once, in order, each batch with a producer id", once=True),
    Feature("transactions", "transactions", "of two commits and an abort, read_committed shows the commits, read_uncommitted all"),
    Feature("transaction-offsets", "offsets within a transaction", "read, write, commit: an abort moves no offset, a commit moves records and offset together",
            filled=100, empty=("-out",)),
    Feature("fencing", "a zombie is fenced", "a second producer of the same transactional id ends the first one's transaction and its right to go on"),
    Feature("leader-killed", "the leader is killed (kill -9) in mid-produce", "acks=all over an election: all that was acknowledged is in the log (once and in order where the producer is idempotent)",
            configs={"min.insync.replicas": "2"}, kill=True),
    Feature("from-start", "read from the start", "3,000 records of 1,000 bytes over ten segments and more come in order", filled=3000, value_bytes=1000,
            configs={"segment.bytes": "131072"}, segments_min=10),
    Feature("group", "group with rebalances", MEMBERS, 4, 400),
    Feature("assignor-range", "assignor range", MEMBERS, 4, 400),
    Feature("assignor-roundrobin", "assignor round robin", MEMBERS, 4, 400),
    Feature("assignor-sticky", "assignor sticky", MEMBERS, 4, 400),
    Feature("assignor-cooperative", "assignor cooperative sticky", MEMBERS + "; what the first member keeps it never gives up", 4, 400),
    Feature("static", "static membership", "a member that comes back under its instance id has its partitions again, and the other one hears of nothing", 4, 400),
    Feature("new-protocol", "the new group protocol (KIP-848)", MEMBERS, 4, 400),
    Feature("commits", "commits", "40 records are committed; the group's next consumer begins at the 41st", filled=100),
    Feature("resets", "resets", "earliest, latest, none (where the client has it), and an offset out of range", filled=100),
    Feature("timestamps", "seek by timestamp", "the offset of a time is found, read from there; there is none after the last record", filled=100),
    Feature("pause", "pause and resume", "a paused partition brings nothing, and everything once it is resumed", 2, 200),
    Feature("pattern", "subscription by pattern", "two topics are found by a regular expression and read", filled=50, also=("-two",)),
    Feature("topics", "create, describe, grow, delete topics", "with configs, a second creation refused as such, five partitions out of two, gone", 0),
    Feature("configs", "describe and alter configs", "a topic's setting is set and unset, each time with its source; a broker's are described", 1),
    Feature("groups", "list, describe, delete groups", "state and member are told, a living group is not deleted, an empty one is", filled=10),
    Feature("group-offsets", "list, alter, delete a group's offsets", "40, then 10, then none", filled=100),
    Feature("list-offsets", "list offsets", "earliest, latest, by time, of the newest record", filled=100),
    Feature("delete-records", "delete records", "the log begins at 30", filled=100),
    Feature("cluster", "describe the cluster", "three brokers, one of them the controller, an id", 0),
    Feature("log-dirs", "describe log directories", "the topic's size on each broker", filled=100),
    Feature("transactions-admin", "list and describe transactions, describe producers", "an open transaction is found, with its partition and its producer"),
    Feature("scram", "SCRAM credentials", "written, described, deleted", 0),
    Feature("quotas", "client quotas", "written, described, removed", 0),
    Feature("reassign", "reassign partitions", "a partition moves to other brokers, and is listed while it does (or has moved)", filled=100),
    Feature("elect", "elect leaders", "the preferred leader is asked for", filled=10),
    Feature("scram-tls", "SASL SCRAM-SHA-512 over TLS", "100 records are written and read through a group"),
    Feature("wrong-password", "a wrong password", "is refused as such, not by silence", 0),
    Feature("oauth", "SASL OAUTHBEARER over TLS", "with a signed token 100 records are written and read through a group; a token that another key has signed is refused"),
    Feature("mutual-tls", "mutual TLS, with a rule for principals", "a rule makes alice of `CN=alice,O=Weir`, and she writes 100 records and reads them through a group; it makes bob of another certificate, and he is refused"),
    Feature("acls", "ACLs", "who has no right is refused, has it once an ACL is created, and the ACL is described and deleted"),
    Feature("streams", "Streams: word count, exactly_once_v2", "counts are exact, read with read_committed", partitions=4, empty=("-out",)),
    Feature("spark-read", "read a batch", "columns, offsets, headers and timestamps of every record", 2, 200, spark=True),
    Feature("spark-read-range", "read a range", "startingOffsets and endingOffsets in JSON; startingTimestamp", 2, 200, spark=True),
    Feature("spark-stream", "read a stream", "availableNow with maxOffsetsPerTrigger, and again from its checkpoint: every record once", 2, 200, spark=True),
    Feature("spark-write", "write a batch", "keys, values, headers, a null value", spark=True),
    Feature("spark-copy", "stream from topic to topic", "every record arrives at least once (Spark's sink promises no more)", 2, 200, empty=("-out",), spark=True),
    Feature("spark-committed", "read_committed", "kafka.isolation.level hides what was aborted", spark=True),
    Feature("spark-tls", "SASL SCRAM-SHA-512 over TLS", "written and read", spark=True),
)  # fmt: skip

BY_ID: dict[str, Feature] = {f.id: f for f in FEATURES}


def asked_of(spark: bool) -> list[Feature]:
    wanted: Callable[[Feature], bool] = lambda f: f.spark == spark  # noqa: E731
    return [f for f in FEATURES if wanted(f)]
