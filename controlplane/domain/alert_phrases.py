"""Texts that are parts of alerts: each is a key of the catalogues of the console (`console.vocabulary`), with its placeholders. Pure.

A pair is the text for one object, and the text for another count.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.sharing.dead_letters import UnwritableReason
from controlplane.domain.history import HistorySubject

Pair = tuple[str, str]


class AlertPhrase:
    """Parts of sentences, with the blank in front of an addition."""

    NAMED = "{what} ({names})"
    REPLICA = "{partition} on broker {broker}"
    AND_MORE = "{names} and {rest} more"
    PARTITIONS: Pair = ("{count} partition", "{count} partitions")
    REPLICAS: Pair = ("{count} replica", "{count} replicas")
    RESOURCES: Pair = ("{count} resource", "{count} resources")
    GROUPS: Pair = ("{count} group", "{count} groups")
    JOBS: Pair = ("{count} job", "{count} jobs")
    ARCHIVE = "archive {id}"
    CHANGES: Pair = ("{count} change", "{count} changes")
    NEW_DEAD_LETTERS: Pair = ("{count} new dead letter", "{count} new dead letters")
    HALF_MESSAGES: Pair = ("{count} half message", "{count} half messages")
    TOPICS_DIFFER: Pair = ("{count} topic differs", "{count} topics differ")
    GROUPS_WAIT: Pair = ("; {count} group waits there", "; {count} groups wait there")
    FAILED_DIRS: Pair = ("{count} failed log directory: {dirs}", "{count} failed log directories: {dirs}")
    SLOW_DIRS: Pair = ("{count} slow log directory: {dirs}", "{count} slow log directories: {dirs}")
    TASKS: Pair = (": task {ids} has failed ({failed} of {tasks})", ": tasks {ids} have failed ({failed} of {tasks})")
    TASKS_AND_CONNECTOR: Pair = (
        " has failed, with task {ids} ({failed} of {tasks})",
        " has failed, with tasks {ids} ({failed} of {tasks})",
    )
    ACCURACY: Pair = (
        "{right} of {count} earlier disk forecast was right.",
        "{right} of {count} earlier disk forecasts were right.",
    )
    KILLED = "; its process was ended by signal {number} ({name}) at {at} UTC"
    EXITED = "; its process ended with exit status {status} at {at} UTC"
    DOWN = " (down now: {brokers})"
    GROUP = "Group {group}"
    SHARE_GROUP = "Share group {group}"
    SHARE_GROUPS: Pair = ("{count} share group", "{count} share groups")
    RECORDS: Pair = ("{count} record", "{count} records")
    UNREAD = " records before they were consumed"
    LOST: Pair = (" {count} record before it was consumed", " {count} records before they were consumed")
    MOST_BEHIND = "{lost} (most behind: {partition})"
    OF = " of {partition}"
    PACE = ": it reads {consumed} records/s, producers write {produced}/s"
    LAG: Pair = ("; lag {count} record", "; lag {count} records")
    LAG_FOR: Pair = ("; lag {count} record (unread for {age})", "; lag {count} records (oldest unread: {age})")
    LAG_AT_LEAST: Pair = (
        "; lag {count} record (unread for more than {age})",
        "; lag {count} records (oldest unread: more than {age})",
    )
    NEEDS = " It needs {speed} records/s to catch up within an hour."
    NOT_CONSUMED_BY = "that {groups} have not consumed"
    NOT_CONSUMED = "of {partition} that group {group} has not consumed"
    IN_AND_LATER = "In {time} and later"
    WITHIN = "Within {time}"
    IN = "In {time}"
    LIMITS = "retention.ms or retention.bytes"
    HUNG_DIR = "{directory} (the disk does not respond)"
    SLOW_DIR = "{directory} (a small write takes {seconds} s)"
    IN_ABOUT = "in about {time}"
    ABOUT_NOW = "about now"
    OR_LATER = "{low} or later"
    TO = "{low} to {high}"
    CAUSES = " ({causes})"
    ROLL_BACK = "Roll the move back, or plan the rest again."
    PLAN_AGAIN = "Nothing was moved. Correct the reason, then plan the move again."
    TARGETS_DOWN: Pair = ("target broker {brokers} is down", "target brokers {brokers} are down")
    SOURCES_DOWN: Pair = ("source broker {brokers} is down", "source brokers {brokers} are down")
    SEE_JOB = "see the job page."
    CHANGED_BY = " Last changed by {user}."
    UNDECIDED_MANY = "about {count} undecided half messages"
    UNDECIDED_ONE = "an undecided half message"
    PER_MINUTE: Pair = ("about {count} time per minute", "about {count} times per minute")
    OPERATION = " to {operation} {resource}"
    CLIENT_AND_ADDRESS = " (client ID {client}, address {address})"
    CLIENT = " (client ID {client})"
    ADDRESS = " (address {address})"
    LOGINS_FAIL = "its authentication fails for {logins}"
    LOGIN = "user {user} ({mechanism}: {failure})"
    LOGIN_WITHOUT_USER = "a login without a user ({mechanism}: {failure})"
    NO_MECHANISM = "no mechanism"
    CHECK_PERMISSION = "Check the permission of the principal, then add an ACL or correct the client."
    CORRECT_CLIENT = "Correct the credentials, the certificate, the version or the settings of the client."
    NO_MEMBERS = ": it has no members"
    NOT_ASSIGNED = ": no member has {partition}"
    NO_PROGRESS = ": the start offset of {partition} does not move"
    START_CONSUMERS = "Start its consumers, or check their logs. If the group is no longer used, delete it."
    CHECK_TOPICS = "Check that its members subscribe to the topic, and that its coordinator and the broker of the partition respond."
    READ_RECORD = "A member may hold the record at the start offset, or each of its deliveries fails: read this record under Messages, and check the logs of the members."
    COMMON_CAUSE = "Many share groups have the same cause: check their consumers, the brokers and the network."
    CONNECTOR_FAILED = " has failed"
    HIGHER_DAYS = "{metric} of {subject}: higher than usual, about {value} instead of {usual} at this time of the day"
    HIGHER = "{metric} of {subject}: higher than usual, about {value} instead of {usual} in the last hours"
    LOWER_DAYS = "{metric} of {subject}: lower than usual, about {value} instead of {usual} at this time of the day"
    LOWER = "{metric} of {subject}: lower than usual, about {value} instead of {usual} in the last hours"


NO_FORECASTS = "No earlier forecast of a disk has an outcome yet."

REJECTED = {
    RejectionReason.AUTHENTICATION_FAILED: "its authentication fails",
    RejectionReason.NOT_AUTHENTICATED: "it sends requests before its authentication",
    RejectionReason.CERTIFICATE_NOT_MAPPED: "no rule of ssl.principal.mapping.rules matches its certificate",
    RejectionReason.TLS_FAILED: "its TLS handshake fails",
    RejectionReason.UNSUPPORTED_VERSION: "it sends a version of a request that the brokers do not support",
    RejectionReason.UNSUPPORTED_API: "it sends a request that the brokers do not support",
    RejectionReason.MALFORMED: "its requests are malformed",
    RejectionReason.TOO_LARGE: "its requests are larger than socket.request.max.bytes",
    RejectionReason.UNAUTHORIZED: "it is not authorized",
    RejectionReason.CONNECTION_LIMIT: "it exceeds a limit of connections",
}
"""Text of each reason for which a client is rejected. A throttled client is no alert: its quota demands it."""

METRIC_OBJECTS = {
    HistorySubject.CLUSTER: "cluster",
    HistorySubject.TOPIC: "topic {name}",
    HistorySubject.GROUP: "group {name}",
    HistorySubject.SHARE_GROUP: "share group {name}",
    HistorySubject.BROKER: "broker {name}",
}
"""Text of the object of each watched metric (`anomaly.WATCHED`)."""

UNWRITABLE: dict[str, str] = {
    UnwritableReason.DISABLED: "the group has no topic of dead letters",
    UnwritableReason.NAME: "the name of its topic of dead letters is not permitted",
    UnwritableReason.MISSING: "its topic of dead letters does not exist",
    UnwritableReason.NOT_ENABLED: "its topic of dead letters does not have errors.deadletterqueue.group.enable=true",
    UnwritableReason.SOURCE: "its topic of dead letters is this topic",
    UnwritableReason.REJECTED: "its topic of dead letters rejects the records",
}
"""Text of each reason for which a share group writes no dead letters. An unknown reason, of a newer broker, is shown as its code."""


MONITOR_SILENT = (
    "The cluster monitor has read nothing from the cluster for {time}: all shown values are at least that old."
)
MONITOR_SILENT_DO = "Check the log of the console: the monitor runs in its web process, or as `manage.py monitor`. Check that ZooKeeper and the database respond."


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "")."""
    for name, value in vars(AlertPhrase).items():
        if name.isupper():
            yield value if isinstance(value, tuple) else (value, "")
    yield from ((text, "") for text in (NO_FORECASTS, MONITOR_SILENT, MONITOR_SILENT_DO))
    yield from ((text, "") for table in (REJECTED, METRIC_OBJECTS, UNWRITABLE) for text in table.values())
