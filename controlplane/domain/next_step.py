"""The next steps of an alert: kinds of operations and pages, each with its object. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StepKind(StrEnum):
    START_PROCESS = "start_process"
    DRAIN_BROKER = "drain_broker"
    DEMOTE_BROKER = "demote_broker"
    OPEN_BROKER = "open_broker"
    PROPOSE_ELECTION = "propose_election"
    OPEN_PARTITION = "open_partition"
    RECOVER_REPLICA = "recover_replica"
    MOVE_OFF_BROKER = "move_off_broker"
    OPEN_MOVE = "open_move"
    OPEN_FILLING_MOVE = "open_filling_move"
    """A running move that copies to a broker whose disk is nearly full."""
    OPEN_FILLING_MOVES = "open_filling_moves"
    """Several such moves: the list of running moves."""
    ROLL_BACK_MOVE = "roll_back_move"
    PLAN_AGAIN = "plan_again"
    """The review of a new move with the scope of a failed one."""
    THROTTLE_MOVE = "throttle_move"
    READ_RECORD = "read_record"
    RAISE_RETENTION = "raise_retention"
    EDIT_CONFIGS = "edit_configs"
    OPEN_GROUP = "open_group"
    OPEN_JOB = "open_job"
    RESUME_ARCHIVE = "resume_archive"
    OPEN_TOPIC = "open_topic"
    OPEN_CHARTS = "open_charts"
    """The page of a topic, for its charts."""
    OPEN_ANOMALIES = "open_anomalies"
    OPEN_CHANGE = "open_change"
    OPEN_DOCUMENT_DRIFT = "open_document_drift"
    OPEN_HALF_MESSAGES = "open_half_messages"
    READ_TOPIC = "read_topic"
    OPEN_DELAYED_MESSAGES = "open_delayed_messages"
    OPEN_DEAD_LETTERS = "open_dead_letters"
    OPEN_SHARE_GROUP = "open_share_group"
    CHECK_PERMISSION = "check_permission"
    OPEN_REJECTED = "open_refused"
    OPEN_USER = "open_user"
    RESTART_TASK = "restart_task"
    RESTART_FAILED = "restart_failed"
    OPEN_CONNECTOR = "open_connector"
    OPEN_CONNECT = "open_connect"
    PROPOSE_ABORT = "propose_abort"
    SEARCH_HANGING = "search_hanging"
    OPEN_CAUSE = "open_cause"
    """The page of the alert that explains this one."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """`target`: the object, in the order of an address: [broker], [topic, partition], [topic, partition, broker], [topic, partition,
    offset], [broker, topic, partition=replicas, ...], [process name], [topic-partition@offset], [principal, host, resource type, resource name, operation],
    [alert], [Connect cluster], [Connect cluster, connector], [Connect cluster, connector, task], [move, kind of its scope, name=value, ...],
    [move, broker, bytes that are left to copy to it or "" = unknown],
    [number of moves], [broker, number of its leaders], [user]."""

    kind: str
    label: str
    target: list[str]
