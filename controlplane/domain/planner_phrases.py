"""Problems and warnings of a plan, as sentences with values. Pure.

The texts are English and the keys of the catalogues. A pair is the text for one object, and the text for another count."""

from __future__ import annotations

from collections.abc import Iterator

from weir_common.phrases import texts_in

ALREADY_REASSIGNED = "{partition} is already being reassigned; wait until it is complete, or cancel that move."
NO_REPLICA = "{partition} would have no replica."
DUPLICATE_BROKER = "{partition} has a duplicate broker: {brokers}."
UNKNOWN_BROKER = "{partition} has broker {broker}, which has never registered; known brokers: {brokers}."
TO_DEAD_BROKER = "{partition} would copy to broker {broker}, which is not alive; start it first."
TO_CORDONED_BROKER = "{partition} would copy to broker {broker}, which is cordoned; uncordon it first."
OFFLINE = "{partition} is offline: it has no leader to copy from. Start the broker of one of its replicas."
ONE_DOMAIN = "{partition} would have two replicas in one failure domain: {domains}."
NOTHING_TO_MOVE = "Nothing to move: every partition already has this assignment."
TOO_LITTLE_SPACE = "Broker {broker} has {free} free and would receive {size}; free disk space, or move less."
LITTLE_SPACE_LEFT = "Broker {broker} would be left with {rest} of {free} free."
BROKER_OR_RACK = "Give a broker or a rack to {operation}, not both."
NO_PARTITION = "Partition {partition} does not exist."
LISTED_TWICE = "{partition} is listed twice."
NO_PARTITIONS_LISTED = "The request lists no partition."
NO_BROKER = "Broker {broker} does not exist."
BROKER_NOT_ALIVE = "Broker {broker} is not alive; start it first."
BROKER_CORDONED = "Broker {broker} is cordoned; uncordon it first."
NO_TOPIC = "Topic {topic} does not exist."
NO_TARGETS = "The request lists no target broker."
NO_ROOM = "{partition} has {replicas} replicas; brokers {brokers} have room for {room}."
FACTOR_TOO_SMALL = "Replication factor {factor} is too small; the minimum is 1."
TOO_FEW_BROKERS = "{partition} cannot have {replicas} replicas: only {brokers} brokers are alive and not cordoned."
UNKNOWN_RACK = "Rack {rack} does not exist; known racks: {racks}."
NO_RACKS = "Rack {rack} does not exist; no broker has a rack."
FEWER_VOTERS = (
    "{partition} has majority acknowledgements (weir.majority.acks.enable) and {before} replicas, which cannot become {after}: the replicas that stay may "
    "lack committed records."
)
BELOW_MIN_INSYNC = (
    "{partition} would have {count} replica, fewer than its min.insync.replicas {least}; acks=all would be acknowledged by {count} replica.",
    "{partition} would have {count} replicas, fewer than its min.insync.replicas {least}; acks=all would be acknowledged by {count} replicas.",
)
FEW_IN_SYNC = (
    "{partition} has {count} replica in sync, fewer than min.insync.replicas {least}.",
    "{partition} has {count} replicas in sync, fewer than min.insync.replicas {least}.",
)
NOWHERE_TO_GO = (
    "{partitions} has {replicas}, and no other live broker that is not cordoned can take the replica on broker {broker}: add a broker or "
    "lower its replication factor."
)
NOWHERE_TO_GO_MANY = (
    "{partitions} have {replicas}, and no other live broker that is not cordoned can take the replica on broker {broker}: add a broker or "
    "lower their replication factor."
)
AND_MORE_SENTENCES = "And {count} more."


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "")."""
    return texts_in(globals())
