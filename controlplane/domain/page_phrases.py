"""Sentences with values that a page shows: why a restart is not safe, why a replica is out of sync, what a move does. Pure.

The texts are English and the keys of the catalogues. Does not contain: texts of alerts (`alert_phrases`), stored sentences, which stay English."""

from __future__ import annotations

from collections.abc import Iterator

from weir_common.phrases import texts_in

ONLY_IN_SYNC = "{partition}: no other replica is in sync."
TOO_FEW_IN_SYNC = (
    "{partition}: without this broker, {count} replica is in sync, but min.insync.replicas is {least}.",
    "{partition}: without this broker, {count} replicas are in sync, but min.insync.replicas is {least}.",
)
MORE_BLOCKERS = ("And {count} more partition.", "And {count} more partitions.")
NO_CONTROLLER = "No controller is active: leaders cannot move."
BROKER_SILENT = "The broker does not respond: its values are {age} old."
OLD_STATE = "The observed cluster state is older than 15 s; this result may be wrong."

NEVER_REGISTERED = "The broker has never registered."
BROKER_DOWN = "The broker is down."
LOG_DIRECTORY_FAILED = "The log directory has failed: {detail}."
NO_LEADER = "The partition has no leader to fetch from."
MOVE_IS_COPYING = "A move is copying the replica to this broker. {lacks}"
NO_REPLICA_REPORTED = "The broker reports no replica of this partition. {lacks}"
NOT_REPORTED_YET = "The leader has not reported the replica's log end offset yet."
NO_FETCH = (
    "The replica has sent no fetch request to broker {leader} since that broker became the leader: check its log, and the network "
    "between the two brokers."
)
LACKS_RECORDS = (
    "The replica lacks {count} record: check whether the number decreases. If not, its disk, its network or a throttle is too slow, or it does not fetch.",
    "The replica lacks {count} records: check whether the number decreases. If not, its disk, its network or a throttle is too slow, or it does not fetch.",
)
START_ABOVE_LEADER = (
    "The replica has all new records, but its log start offset {start} is above the leader's {leader_start}. It joins the ISR after retention "
    "has deleted the leader's records below it; otherwise the controller has the replica replicated again after some minutes."
)
JOINS_SOON = (
    "The replica has all records and joins the ISR with its next fetches. If it does not join, it has stopped fetching: check the "
    "broker's log."
)

DRAIN_RACK = "Drain rack {rack}"
DRAIN_BROKER = "Drain broker {broker}"
FILL_RACK = "Fill rack {rack}"
FILL_BROKER = "Fill broker {broker}"
TOPIC_TO_BROKERS = "Topic {topic} to brokers {brokers}"
TOPIC_TO_FACTOR = "Topic {topic} to replication factor {factor}"
REBALANCE_BY = "Rebalance by {goals}"
ASSIGNMENT = ("{count} partition, manual assignment", "{count} partitions, manual assignment")

INTERNAL_TOPIC = "{topic} is an internal topic and needs its old records. Use the mode that copies all data."
COMPACTED_TOPIC = (
    "{topic} is compacted (cleanup.policy {policy}) and needs its oldest records. Use the mode that copies all data."
)
MAJORITY_TOPIC = (
    "{topic} has majority acknowledgements (weir.majority.acks.enable), so no single replica is known to have all records. Use the mode that copies all "
    "data."
)
NO_REMOTE_COPY = (
    "{topic} copies no segments to the remote store (remote.log.copy.disable), so its old records stay on the old replicas. Use the mode "
    "that copies all data."
)
UNLIMITED_RETENTION = (
    "{topic} has unlimited retention (retention.ms and retention.bytes are -1): the old replicas could never be removed. Use the mode that "
    "copies all data, set a retention, or set a deadline, after which the old records can be deleted."
)

TIME_NOT_KNOWN = "The cluster at {at} is not known: {known}."
KNOWN_UNTIL = "known until {time}"
KNOWN_FROM = "known from {time}"
NOTHING_KEPT = "nothing is retained yet"

NOT_READ_TO_END = "Partition {partition} was not read to the end: {problem}"
OPERATION_ON_OBJECT = "{operation} {name}, {actor}"
STATE_ARROW = "{before} → {after}"
STATE_CHANGE = "{before} → {after}: {text}"
"""A line of a timeline, with a text or the reason of a user."""


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "")."""
    return texts_in(globals())
