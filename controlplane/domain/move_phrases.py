"""Notes of moves, of their partitions and of comparisons of replicas, as sentences with values. Pure.

The texts are English and the keys of the catalogues. A pair is the text for one object, and the text for another count."""

from __future__ import annotations

from collections.abc import Iterator

from weir_common.phrases import texts_in

GONE = "The partition no longer exists in the cluster."
DIFFERENCE = (
    "Rejected: the assignment changed since it was read (generation {read}, now {now}; replicas now {replicas}, adding {adding}, removing "
    "{removing}). Plan it again."
)
NO_LEADER = "Source down: the partition has no leader. Start one of its in-sync replicas."
NO_LEADER_OF = "Source down: the partition has no leader. Start one of its in-sync replicas: broker {brokers}."
BROKER_OR = "{first} or {second}"
TARGET_DOWN = "Target down: broker {broker} is not alive. Start it, or cancel the move."
NOT_TAKEN = "No controller has read the reassignment yet. Check the controllers."
CONTROLLER_REJECTED = "The controller rejected the reassignment: {reason}."

WAITS_FOR_BROKERS = "Waiting for broker {brokers} to be in sync."
WAITS_FOR_LEADER = "Waiting for a leader."
COMPARING = "Comparing the replicas before the old ones are removed."
REPLICAS_DIFFER = "Rejected: the replicas differ, so none was removed. {comparison}"
START_CHANGED = (
    "Leadership was not handed over: the log start offset of the new replicas has changed since the request."
)
NO_SPACE = "No space: broker {broker} has {free} free, {missing} are left to copy. Free disk space, or cancel the move."
NO_SIZE = "Fetch error: broker {broker} reports no size of this replica. See its log."
NOT_COMPLETED = "All bytes are copied, but no controller has completed the reassignment yet. Check the controllers."
THROTTLED = "Throttle: no bytes copied for a minute. Raise the throttle."
NOTHING_COPIED = (
    "Fetch error: broker {broker} has copied nothing from broker {leader} for more than {minutes} min. See its log, and the damaged replicas "
    "of broker {leader}."
)
WILL_NOT_FINISH_THROTTLE = (
    "Will not finish: {arrive} arrive; the move needs more than {needs} per broker. Raise the throttle."
)
WILL_NOT_FINISH = "Will not finish: {arrive} arrive; the move needs more than {needs} per broker. Slow the producers, or copy fewer partitions concurrently."

ARCHIVED_BELOW = "Rejected: records below offset {offset} are still on the replicas of an earlier hand-over. Wait for retention, or use mode copy."
NOTHING_DELETED = (
    "Nothing was deleted: the new replicas now start at {start}, not at {requested}. Request the deletion again."
)
UNKNOWN_OFFSET = "an unknown offset"
UNFIT = "{reason} The new replicas do not join the ISR until then. Or cancel the move."
START_NOT_REPORTED = "Catching up: the leader has not reported the start offset of the new replicas yet."
CATCHING_UP_NOT_STARTED = "Catching up from offset {start}: broker {broker} has not started."
CATCHING_UP = (
    "Catching up from offset {start}: broker {broker} lacks {count} record.",
    "Catching up from offset {start}: broker {broker} lacks {count} records.",
)
OLD_RECORDS_DELETED = (
    "In sync from offset {start}. The old records were deleted; the leader last reported log start offset {log_start}."
)
WAITS_FOR_COPIES = (
    "In sync from offset {start}. Waiting for copies to the remote store: the leader's local log still starts at {log_start}. The new replicas "
    "join the ISR automatically when the local log starts at {start}."
)
DEADLINE_PASSED = (
    "In sync from offset {start}. The deadline of the move has passed, and the log start offset is still {log_start}. Delete the old records, "
    "or cancel the move."
)
WAITS_FOR_RETENTION = (
    "In sync from offset {start}. Waiting for retention: the log start offset is still {log_start}. The new replicas join the ISR automatically "
    "after that. Or delete the old records."
)

DELETION_RUNS = (
    "{name}: records below offset {offset} are being deleted, which cannot be undone; cancel after the deletion."
)
NO_OLD_REPLICA = (
    "{name}: none of its old replicas ({replicas}) is alive and in sync; a revert would leave it without a leader. Start one of their brokers, "
    "or let the move finish."
)
REJECTED_PARTS = (
    "{count} of {all} partitions was rejected; its note has the reason. Roll back, or plan the rest again.",
    "{count} of {all} partitions were rejected; their notes have the reasons. Roll back, or plan the rest again.",
)
REJECTED_WITHOUT_MOVED_PARTS = (
    "{count} of {all} partitions was rejected; its note has the reason. No partition has moved, so there is nothing to roll back: plan them again.",
    "{count} of {all} partitions were rejected; their notes have the reasons. No partition has moved, so there is nothing to roll back: plan them again.",
)
KEPT_PARTS = (
    "{count} partition had finished and keeps the new assignment; roll back to revert it too.",
    "{count} partitions had finished and keep the new assignment; roll back to revert them too.",
)
CANCELLED_BY_CLIENT = (
    "{count} partition was cancelled by a client and keeps the old assignment.",
    "{count} partitions were cancelled by a client and keep the old assignment.",
)
THROTTLE_LEFT = "Waiting for the removal of its throttle: {throttles}."
THROTTLE_OF_TOPIC = "topic {topic}"
THROTTLE_OF_BROKER = "broker {broker}"
MORE_THROTTLES = "{throttles} and {count} more"

WINDOW_OPEN = "The window is open."
CONTINUES_AT = "The move continues at {time} UTC."
STARTS_AT = "The move starts at {time} UTC."
WINDOW_OVER = "The window does not open again: set another window."
WINDOW_CLOSED = "The window ({window}) has closed: no further copy starts, active copies finish. {continuation}"
NOT_STARTED = "The move could not start: {reason}"

START_DIFFERS = "The log of broker {broker} starts at offset {start}, that of leader {leader} at {leader_start}."
EMPTY = "The partition is empty on all {count} replicas."
NO_RECORDS_RETURNED = "Broker {broker} returned no records of offsets {first} to {after}."
RECORDS_DIFFER = "Broker {broker} and the leader {leader} have different records in offsets {first} to {after}."
NOT_ALL_RETURNED = "Broker {broker} has not returned all of offsets {first} to {after} yet."
EQUAL = (
    "Offsets {first} to {after} are equal on {count} replica.",
    "Offsets {first} to {after} are equal on {count} replicas.",
)
EQUAL_SO_FAR = (
    "Offsets {first} to {after} of {end} are equal on {count} replica so far.",
    "Offsets {first} to {after} of {end} are equal on {count} replicas so far.",
)
UNKNOWN_ADDRESS = "The address of broker {broker} is unknown."
NO_RESPONSE = "Broker {broker} does not respond: {error}"
REJECTS = "Broker {broker} rejects the request: {error}"
LOW_HIGH_WATERMARK = "Broker {broker} has a high watermark below the leader's."
COMPACTED_EQUAL = (
    "Compacted topic: the log end offsets of {count} replica are equal; their bytes may differ.",
    "Compacted topic: the log end offsets of {count} replicas are equal; their bytes may differ.",
)


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "")."""
    return texts_in(globals())
