"""Alerts: problems of the cluster, each with what to do about it. Pure functions.

Invariants: the list of kinds is closed, and each kind has an instruction for the operator. An alert is identified by (kind, subject), so its start time stays
when its values change. Does not contain: clocks, rows, links; which facts are a problem (`alert_cases`, `alert_*_cases`); which stored rows change (`alert_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from controlplane.domain import alert_cases as cases
from controlplane.domain import alert_client_cases as client_cases
from controlplane.domain import alert_group_cases as group_cases
from controlplane.domain import alert_message_cases as message_cases
from controlplane.domain import alert_worker_cases as worker_cases
from controlplane.domain.alert_phrases import AlertPhrase
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.alert_types import AlertCase, AlertFacts, AlertKind, ComputedAlert, Severity
from controlplane.domain.lag import LagStatus
from controlplane.domain.page_phrases import STATE_CHANGE
from weir_common.json_values import Json
from weir_common.phrases import Phrase, TranslatableText, Value, from_json, number_of, sentence


@dataclass(frozen=True, slots=True)
class AlertRule:
    """The placeholders in `text` and `do` are filled with the values of a case, and with `down`: the brokers that are down."""

    kind: AlertKind
    severity: Severity
    cases: Callable[[AlertFacts], Iterable[AlertCase]]
    text: str
    do: str


def alerts(facts: AlertFacts) -> list[ComputedAlert]:
    """The most severe alerts first. Within a severity the order is that of RULES. Of cases with the same subject, which is cut if it is long, only the first
    has an alert."""
    down = [b.broker_id for b in facts.brokers if not b.alive]
    always: dict[str, Value] = {"down": Phrase(AlertPhrase.DOWN, {"brokers": [str(b) for b in down]}) if down else ""}
    found: dict[tuple[AlertKind, str], ComputedAlert] = {}
    for rule in RULES:
        for case in rule.cases(facts):
            words = always | dict(case.words)
            severity = case.severity or rule.severity
            text, do = Phrase(rule.text, words), Phrase(rule.do, words)
            made = ComputedAlert(rule.kind, case.subject, severity, str(text), str(do), words, case.parts)
            found.setdefault((rule.kind, case.subject), made)
    return sorted(found.values(), key=lambda a: a.severity is not Severity.AT_RISK)


RULES = (
    AlertRule(AlertKind.PARTITIONS_OFFLINE, Severity.AT_RISK, lambda f: cases.counted_case(f.offline, AlertPhrase.PARTITIONS),
         "{what} {has} no leader and cannot be read or written.",
         "Start a broker of the last in-sync replicas{down}. If its disk is permanently lost, request an unclean leader election on the partition page, which shows the records that would be lost."),
    AlertRule(AlertKind.PARTITIONS_UNDER_MIN_ISR, Severity.AT_RISK, lambda f: cases.counted_case(f.under_min_isr, AlertPhrase.PARTITIONS),
         "{what} {has} fewer in-sync replicas than min.insync.replicas: producers with acks=all get NOT_ENOUGH_REPLICAS.",
         "Start the brokers of the missing replicas{down}. If they are permanently lost, move the partitions to other brokers."),
    AlertRule(AlertKind.UNCLEAN_ELECTION, Severity.AT_RISK,
         lambda f: [case for e in f.unclean_elections for case in cases.counted_case(e.partitions, AlertPhrase.PARTITIONS, e.topic)],
         "{what} had an automatic unclean leader election: acknowledged records may be lost.",
         "The page of each partition shows the records that its replicas deleted. Produce lost records again if the producers still have them. To keep partitions offline instead of losing records, set unclean.leader.election.enable=false on the topic."),
    AlertRule(AlertKind.NO_CONTROLLER, Severity.AT_RISK, lambda f: cases.single_case(f.zookeeper and f.controller is None),
         "No active controller: no leader is elected if a broker fails.",
         "Start a controller (`manage.py controller`). If it does not become active, its log has the reason."),
    AlertRule(AlertKind.ZOOKEEPER_AWAY, Severity.DEGRADED, lambda f: cases.single_case(f.zookeeper is False),
         "ZooKeeper does not respond to the console: no leader elections and no changes until it responds. Produce and fetch requests still work.",
         "Start ZooKeeper, or repair the network to it. If its data is lost, stop all processes and run `manage.py rebuild` (docs/how-to/disaster.md)."),
    AlertRule(AlertKind.WORKER_SILENT, Severity.DEGRADED, worker_cases.worker_silent,
         "No worker is running: moves, replica recoveries, rolling restarts, offset resets, Spark jobs and notifications make no progress.",
         "Start a worker (`celery -A weir.celery worker -P threads -c 2`). If one is running, check its log and its connections to the database and to the Celery broker."),
    AlertRule(AlertKind.SPARK_WORKER_SILENT, Severity.DEGRADED, worker_cases.spark_worker_silent,
         "No worker of Spark jobs is running: nothing starts, restarts or finishes {what}.",
         "Start the worker of Spark jobs (the unit `weir-spark-worker`, or a worker that reads all queues). If one is running, check its log and its connections to the database and to the Celery broker."),
    AlertRule(AlertKind.BROKER_DOWN, Severity.DEGRADED, cases.brokers_down,
         "Broker {id} is down: {replicas} offline{end}.",
         "Start the broker. If it is permanently lost, drain it: its replicas are copied to other brokers."),
    AlertRule(AlertKind.BROKER_SILENT, Severity.DEGRADED, cases.brokers_silent,
         "Broker {id} is registered but does not respond to the console: its values are out of date.",
         "Check its log, its load and the network from the console to it. The broker page shows whether a restart is safe."),
    AlertRule(AlertKind.DISK_FAILED, Severity.AT_RISK, cases.disks_failed,
         "Broker {id} has {dirs}.",
         "The replicas on them are offline. Replace the disk and restart the broker, which replicates them again, or drain the broker."),
    AlertRule(AlertKind.DISK_LOW, Severity.DEGRADED, cases.disks_low,
         "Broker {id} has {free} % of its disk free ({total} in all). A full disk rejects writes.",
         "Move partitions off the broker (Moves, or a rebalance by disk), reduce the retention of a topic, or add disk space."),
    AlertRule(AlertKind.DISK_FILLING, Severity.DEGRADED, cases.disks_filling,
         "The disk of broker {id} is forecast to be full {when} ({stated} % interval: {interval}): {used} of {total} are used. {accuracy}",
         "Move partitions off the broker, reduce the retention of a topic, or add disk space before that time. The chart of the broker page shows when the growth began."),
    AlertRule(AlertKind.DISK_SLOW, Severity.DEGRADED, cases.disks_slow,
         "Broker {id} has {dirs}.",
         "Move leadership off the broker, so that brokers with faster disks lead its partitions. Then check the load and the health of the disk. Restore leadership when the disk is fast again."),
    AlertRule(AlertKind.PARTITIONS_UNDER_REPLICATED, Severity.DEGRADED, cases.lagging_replicas,
         "{what} {has} a replica that is out of sync, although every broker is alive.",
         "The replica may be catching up: check whether the count decreases. If not, check disk and network of the lagging broker, or re-replicate the replica on the partition page."),
    AlertRule(AlertKind.COPIES_DAMAGED, Severity.DEGRADED, lambda f: cases.counted_case(f.damaged, AlertPhrase.REPLICAS),
         "Brokers report {what} as damaged.",
         "Re-replicate each from its leader under Moves, Damaged replicas. The only in-sync replica of a partition is never deleted."),
    AlertRule(AlertKind.TRANSACTION_HANGING, Severity.DEGRADED, cases.hanging_case,
         "{what} {has} a hanging transaction: read_committed consumers stop at its first record{waits}.",
         "Request the abort of each; another operator approves it. The page Hanging transactions lists all of them."),
    AlertRule(AlertKind.MOVE_FAILED, Severity.DEGRADED, lambda f: cases.moves(f, failed=True),
         "Move {id} has failed: {parts} {was} rejected.",
         "The move page shows the reason for each partition. {advice}"),
    AlertRule(AlertKind.MOVE_STUCK, Severity.DEGRADED, lambda f: cases.moves(f, failed=False),
         "Move {id}: {parts} {is} stuck{why}.",
         "The move page shows the cause for each partition and how to resolve it."),
    AlertRule(AlertKind.MOVE_WILL_NOT_FINISH, Severity.DEGRADED, cases.moves_outrun,
         "Move {id} will not finish: producers write faster than replicas are copied.",
         "Raise the throttle above {needs}/s per broker, slow the producers, or copy fewer partitions concurrently."),
    AlertRule(AlertKind.GROUP_DATA_LOST, Severity.AT_RISK, lambda f: group_cases.groups(f, LagStatus.DATA_LOST),
         "{who} lost data: retention deleted{detail}{lag}.",
         "The records cannot be recovered. Raise retention.ms or retention.bytes of the topic, then add consumers or make them faster."),
    AlertRule(AlertKind.GROUP_RETENTION, Severity.DEGRADED, group_cases.retention,
         "{when}, retention ({limit}) will delete records {where}.",
         "Raise {limit} of the topic, or make the group faster. If the group is no longer used, delete it."),
    AlertRule(AlertKind.GROUP_FALLING_BEHIND, Severity.DEGRADED, lambda f: group_cases.groups(f, LagStatus.FALLING_BEHIND),
         "{who} {is} falling behind{detail}{lag}.",
         "Add consumers (at most one per partition) or make processing faster.{needs}"),
    AlertRule(AlertKind.GROUP_STOPPED, Severity.DEGRADED, lambda f: group_cases.groups(f, LagStatus.STOPPED),
         "{who} {has} stopped: no members and no commits{lag}.",
         "Start its consumers, or check their logs. If the group is no longer used, delete it."),
    AlertRule(AlertKind.GROUP_STALLED, Severity.DEGRADED, lambda f: group_cases.groups(f, LagStatus.STALLED),
         "{who} {is} stalled: the committed offset{detail} does not change{lag}.",
         "The processing of a record may fail: check the record at the committed offset under Messages, and the consumer's log."),
    AlertRule(AlertKind.SHARE_GROUP_STOPPED, Severity.DEGRADED, group_cases.share_groups,
         "{who} {is} stalled{why}{lag}.",
         "{advice} The page of the share group has the start offset of each partition."),
    AlertRule(AlertKind.DEAD_LETTERS_MISSING, Severity.AT_RISK, message_cases.dead_letters_missing,
         "Share group {group} has given up about {records} of {topic} without dead letters: {reason}.",
         "The records are still in their topic until retention deletes them. Correct the topic of dead letters of the group, then reset the offsets of the group to read them again."),
    AlertRule(AlertKind.HALF_UNDECIDED, Severity.DEGRADED, message_cases.half_undecided,
         "Topic {topic} has {messages}; the oldest has waited for {age}.",
         "Check that the producers answer the checks in the check topic. The page of half messages lists the undecided ones, and requests a commit or a rollback."),
    AlertRule(AlertKind.HALF_EXPIRED, Severity.DEGRADED, message_cases.half_expired,
         "{messages} of {topic} {has} expired and will not be delivered.",
         "Read them in {expired}. First copy those that are to be delivered to {topic}. Then delete the records of {expired}."),
    AlertRule(AlertKind.DELAYED_OVERDUE, Severity.DEGRADED, message_cases.delayed_overdue,
         "Delayed messages of {topic} are overdue: about {late} late.",
         "The page of delayed messages shows the partitions that do not deliver, with the error of the target partition."),
    AlertRule(AlertKind.DEAD_LETTERS_GROWING, Severity.DEGRADED, message_cases.dead_letters_growing,
         "Topic {topic} has about {letters} in ten minutes.",
         "The page of dead letters shows their causes. Correct the consumers, then send the dead letters again."),
    AlertRule(AlertKind.CLIENT_REJECTED, Severity.DEGRADED, client_cases.clients_rejected,
         "Requests of {who} are rejected {rate}: {why}{operation}{source}.",
         "{advice} Stop a client that should not connect. The page Clients lists its rejected requests and failed logins."),
    AlertRule(AlertKind.CONNECTOR_FAILED, Severity.DEGRADED, worker_cases.connectors_failed,
         "Connector {connector} of Connect cluster {cluster}{failure}.",
         "The page of the connector has the trace of each failed task. Correct the cause, then restart what has failed: Kafka Connect restarts no failed task by itself."),
    AlertRule(AlertKind.CONNECT_SILENT, Severity.DEGRADED, worker_cases.connect_silent,
         "Connect cluster {cluster} does not respond: {problem}",
         "Check the workers and their logs, the network to them, and the addresses and passwords in WEIR_CONNECT_URLS. The states of its connectors are unknown."),
    AlertRule(AlertKind.ANOMALY, Severity.DEGRADED, cases.anomalies,
         "{text}.",
         "Check what has changed: the chart has marks of changes, alerts and elections. If the value is right, turn the alerts of this metric off under Health, Anomalies."),
    AlertRule(AlertKind.ARCHIVE_FAILED, Severity.DEGRADED, cases.archives_failed,
         "Archive job {id} has failed: {note}",
         "Fix the cause that the job page shows, then resume the job: it continues at its last committed offsets."),
    AlertRule(AlertKind.DRIFT, Severity.DEGRADED, lambda f: cases.single_case(f.drift, topics=number_of(f.drift, *AlertPhrase.TOPICS_DIFFER)),
         "{topics} between database and cluster.",
         "Drift is not corrected automatically. The page Topics, Drift, lists the differences. Adopt the cluster state of each topic where it is correct."),
    AlertRule(AlertKind.DOCUMENT_DRIFT, Severity.DEGRADED, cases.documents_drifted,
         "{what} differ{s} from the document of {owner} (plan {plan}).{by}",
         "Open the comparison of plan {plan}: it lists each difference. Apply the document again, or change the document and apply it."),
    AlertRule(AlertKind.CHANGES_UNKNOWN, Severity.DEGRADED, lambda f: cases.single_case(f.changes_unknown, changes=number_of(f.changes_unknown, *AlertPhrase.CHANGES)),
         "The outcome of {changes} is unknown.",
         "The audit log lists the changes with an unknown outcome. Check in the cluster whether each was applied, and repeat it if it was not."),
)  # fmt: skip
"""All alerts that are computed from rows, in the order of severity. `selectors.alerts` adds MONITOR_SILENT."""
KINDS_IN_ORDER = tuple(dict.fromkeys(rule.kind for rule in RULES))
"""The kinds in the order of lists of alerts: first what makes data unavailable."""

THRESHOLD_KINDS: dict[ThresholdName, tuple[AlertKind, ...]] = {
    ThresholdName.DISK_FREE_LOW: (AlertKind.DISK_LOW,),
    ThresholdName.DISK_FREE_LEAST: (AlertKind.DISK_LOW,),
    ThresholdName.DISK_FULL_AHEAD: (AlertKind.DISK_FILLING,),
    ThresholdName.DISK_FULL_GRAVE: (AlertKind.DISK_FILLING,),
    ThresholdName.RETENTION_AHEAD: (AlertKind.GROUP_RETENTION,),
    ThresholdName.RETENTION_GRAVE: (AlertKind.GROUP_RETENTION,),
    ThresholdName.GROUP_BEHIND: (AlertKind.GROUP_FALLING_BEHIND,),
    ThresholdName.GROUP_STALL: (AlertKind.GROUP_STALLED, AlertKind.SHARE_GROUP_STOPPED),
    ThresholdName.GROUP_STOPPED: (AlertKind.GROUP_STOPPED, AlertKind.SHARE_GROUP_STOPPED),
    ThresholdName.GROUP_ALERTS_MAX: (
        AlertKind.GROUP_DATA_LOST,
        AlertKind.GROUP_RETENTION,
        AlertKind.GROUP_FALLING_BEHIND,
        AlertKind.GROUP_STOPPED,
        AlertKind.GROUP_STALLED,
        AlertKind.SHARE_GROUP_STOPPED,
    ),
    ThresholdName.TRANSACTION_HANGING: (AlertKind.TRANSACTION_HANGING,),
    ThresholdName.HALF_UNDECIDED: (AlertKind.HALF_UNDECIDED,),
    ThresholdName.HALF_EXPIRED: (AlertKind.HALF_EXPIRED,),
    ThresholdName.DELAYED_OVERDUE: (AlertKind.DELAYED_OVERDUE,),
    ThresholdName.DEAD_LETTERS_GROWN: (AlertKind.DEAD_LETTERS_GROWING,),
    ThresholdName.CLIENT_REJECTED: (AlertKind.CLIENT_REJECTED,),
    ThresholdName.FAILURES_KEPT: (
        AlertKind.MOVE_FAILED,
        AlertKind.ARCHIVE_FAILED,
        AlertKind.CHANGES_UNKNOWN,
        AlertKind.DEAD_LETTERS_MISSING,
        AlertKind.UNCLEAN_ELECTION,
    ),
    ThresholdName.HEALTH_REPLICATION: (),
    ThresholdName.HEALTH_LEADER_SKEW: (),
    ThresholdName.HEALTH_REPLICA_SKEW: (),
    ThresholdName.HEALTH_NOT_PREFERRED: (),
    ThresholdName.HEALTH_PARTITION_SKEW: (),
    ThresholdName.ANOMALY_DISTANCE: (AlertKind.ANOMALY,),
    ThresholdName.ANOMALY_ALERTS_MAX: (AlertKind.ANOMALY,),
}
"""The kinds of alerts that depend on a threshold. No alert depends on a threshold of a health check."""

BRIEFS: dict[AlertKind, str] = {
    AlertKind.PARTITIONS_OFFLINE: "Partitions have no leader.",
    AlertKind.PARTITIONS_UNDER_MIN_ISR: "Partitions have too few in-sync replicas.",
    AlertKind.PARTITIONS_UNDER_REPLICATED: "Partitions have replicas out of sync.",
    AlertKind.UNCLEAN_ELECTION: "Unclean leader election of topic {}.",
    AlertKind.MONITOR_SILENT: "The cluster monitor does not report.",
    AlertKind.NO_CONTROLLER: "No active controller.",
    AlertKind.ZOOKEEPER_AWAY: "ZooKeeper does not respond: no leader elections.",
    AlertKind.WORKER_SILENT: "No worker is running.",
    AlertKind.SPARK_WORKER_SILENT: "No worker of Spark jobs is running.",
    AlertKind.BROKER_DOWN: "Broker {} is down.",
    AlertKind.BROKER_SILENT: "Broker {} does not respond to the console.",
    AlertKind.DISK_FAILED: "Broker {} has failed log directories.",
    AlertKind.DISK_LOW: "Broker {} is low on disk.",
    AlertKind.DISK_FILLING: "Broker {} will have a full disk soon.",
    AlertKind.DISK_SLOW: "Broker {} has a slow disk.",
    AlertKind.COPIES_DAMAGED: "Replicas are damaged.",
    AlertKind.TRANSACTION_HANGING: "Transactions hang: consumers stop at them.",
    AlertKind.MOVE_FAILED: "Move {} has failed.",
    AlertKind.MOVE_STUCK: "Move {} is stuck.",
    AlertKind.MOVE_WILL_NOT_FINISH: "Move {} will not finish.",
    AlertKind.GROUP_DATA_LOST: "Group {} lost data to retention.",
    AlertKind.GROUP_RETENTION: "Group {} will lose data to retention.",
    AlertKind.GROUP_FALLING_BEHIND: "Group {} is falling behind.",
    AlertKind.GROUP_STOPPED: "Group {} has stopped.",
    AlertKind.GROUP_STALLED: "Group {} is stalled.",
    AlertKind.SHARE_GROUP_STOPPED: "Share group {} is stalled.",
    AlertKind.HALF_UNDECIDED: "Half messages of {} wait too long.",
    AlertKind.HALF_EXPIRED: "Half messages of {} have expired.",
    AlertKind.DELAYED_OVERDUE: "Delayed messages of {} are overdue.",
    AlertKind.DEAD_LETTERS_GROWING: "Topic {} has new dead letters.",
    AlertKind.DEAD_LETTERS_MISSING: "Records without dead letters ({}).",
    AlertKind.CLIENT_REJECTED: "Rejected client: {}.",
    AlertKind.CONNECTOR_FAILED: "Failed connector or tasks: {}.",
    AlertKind.CONNECT_SILENT: "Connect cluster {} does not respond.",
    AlertKind.ANOMALY: "Unusual metric: {}.",
    AlertKind.ARCHIVE_FAILED: "Archive job {} has failed.",
    AlertKind.DRIFT: "Topics differ between database and cluster.",
    AlertKind.DOCUMENT_DRIFT: "The cluster differs from the document of {}.",
    AlertKind.CHANGES_UNKNOWN: "Changes have an unknown outcome.",
}
"""Short text of a kind for the health line."""


def brief(kind: str, subject: str, text: str) -> str:
    """Short text of an alert for the health line. An alert about several groups has its full text."""
    short = BRIEFS.get(AlertKind(kind), text)
    return text if "{}" in short and not subject else short.format(subject)


def text_of(a: ComputedAlert) -> str:
    """The text of an alert, with the phrase that it was made of."""
    rule = next(r for r in RULES if r.kind == a.kind)
    return TranslatableText.of(a.text, Phrase(rule.text, a.words)) if a.words else a.text


def severity_change(before: Severity, a: ComputedAlert) -> str:
    """The line of the timeline for an alert whose severity changed."""
    words = {name: Phrase(severity.replace("_", " ")) for name, severity in (("before", before), ("after", a.severity))}
    return sentence(STATE_CHANGE, text=text_of(a), **words)


def stored_texts(kind: str, text: str, do: str, words: Mapping[str, Json]) -> tuple[str, str]:
    """The text and the action of a stored alert, with the phrases that they were made of. `words`: as stored; without them, for example of an alert
    of an earlier version, the texts are English only."""
    rule = next((r for r in RULES if r.kind == kind), None)
    if rule is None or not words:
        return text, do
    values = {name: from_json(value) for name, value in words.items()}
    return (
        TranslatableText.of(text, Phrase(rule.text, values)),
        TranslatableText.of(do, Phrase(rule.do, values)),
    )
