"""The operations that the audit log records: their codes, which REST, CSV and the database contain, and their labels, which pages show. Pure.

Invariant: each code has a label. The labels are English, and they are the keys of the catalogues. Does not contain: outcomes (`models.change`).
"""

from __future__ import annotations

from enum import StrEnum


class AuditOperation(StrEnum):
    """`<kind>.<operation>`. MOVE_ and RESTART_ with a state: the worker has put the object into this state. TOPIC_CLIENT_: a Kafka client
    requested the operation."""

    ACL_CREATE = "acl.create"
    ACL_DELETE = "acl.delete"
    ACL_SET = "acl.set"
    ALERT_ACKNOWLEDGE = "alert.acknowledge"
    ALERT_END_SILENCE = "alert.end_silence"
    ALERT_NOTE = "alert.note"
    ALERT_SILENCE = "alert.silence"
    ALERT_WITHDRAW = "alert.withdraw"
    ANOMALY_SWITCH = "anomaly.switch"
    ARCHIVE_RESUME = "archive.resume"
    ARCHIVE_START = "archive.start"
    ARCHIVE_STOP = "archive.stop"
    BROKER_CONFIGS = "broker.configs"
    BROKER_CORDON = "broker.cordon"
    BROKER_DEMOTE = "broker.demote"
    BROKER_DRAIN = "broker.drain"
    BROKER_RESTORE = "broker.restore"
    BROKER_RESTORE_LEADERSHIP = "broker.restore_leadership"
    BROKER_SET = "broker.set"
    BROKER_UNCORDON = "broker.uncordon"
    CONNECTOR_CHANGE = "connector.change"
    CONNECTOR_CREATE = "connector.create"
    CONNECTOR_DELETE = "connector.delete"
    CONNECTOR_PAUSE = "connector.pause"
    CONNECTOR_RESTART = "connector.restart"
    CONNECTOR_RESUME = "connector.resume"
    CONNECTOR_STOP = "connector.stop"
    CONSOLE_USER_CREATE = "console_user.create"
    CONSOLE_USER_DISABLE = "console_user.disable"
    CONSOLE_USER_ENABLE = "console_user.enable"
    CONSOLE_USER_REFRESH = "console_user.refresh"
    DEAD_LETTERS_SEND = "dead_letters.send"
    DELAYED_CANCEL = "delayed.cancel"
    DELAYED_LOOK_UP = "delayed.look_up"
    DOCUMENT_APPLY = "document.apply"
    DOCUMENT_PLAN = "document.plan"
    FEATURE_FINALISE = "feature.finalise"
    GROUP_CANCEL_RESET = "group.cancel_reset"
    GROUP_CONFIGS = "group.configs"
    GROUP_DELETE = "group.delete"
    GROUP_DELETE_OFFSETS = "group.delete_offsets"
    GROUP_REMOVE_MEMBER = "group.remove_member"
    GROUP_RESET_OFFSETS = "group.reset_offsets"
    GROUP_SET = "group.set"
    GROUP_UNDO_RESET = "group.undo_reset"
    GROUP_WAIT_RESET = "group.wait_reset"
    HALF_COMMIT = "half.commit"
    HALF_ROLLBACK = "half.rollback"
    HEALING_ALTER = "healing.alter"
    LAKE_QUERY = "lake.query"
    MASKING_CREATE = "masking.create"
    MASKING_DELETE = "masking.delete"
    MOVE_APPROVE = "move.approve"
    MOVE_APPROVED = "move.approved"
    MOVE_CANCEL = "move.cancel"
    MOVE_CANCEL_PART = "move.cancel_part"
    MOVE_CANCELLED = "move.cancelled"
    MOVE_CANCELLING = "move.cancelling"
    MOVE_DELETE_RECORDS = "move.delete_records"
    MOVE_DONE = "move.done"
    MOVE_END_DRAIN = "move.end_drain"
    MOVE_FAILED = "move.failed"
    MOVE_PAUSE = "move.pause"
    MOVE_PAUSED = "move.paused"
    MOVE_PLAN = "move.plan"
    MOVE_PLANNED = "move.planned"
    MOVE_RESUME = "move.resume"
    MOVE_ROLL_BACK = "move.roll_back"
    MOVE_ROLLED_BACK = "move.rolled_back"
    MOVE_ROLLING_BACK = "move.rolling_back"
    MOVE_RUNNING = "move.running"
    MOVE_SCHEDULE = "move.schedule"
    MOVE_START = "move.start"
    MOVE_THROTTLE = "move.throttle"
    MOVE_VERIFYING = "move.verifying"
    NOTIFICATION_ALTER = "notification.alter"
    NOTIFICATION_CREATE = "notification.create"
    NOTIFICATION_DELETE = "notification.delete"
    NOTIFICATION_TEST = "notification.test"
    PLAN_APPROVE = "plan.approve"
    PLAN_DROP = "plan.drop"
    PLAN_MOVE = "plan.move"
    PLAN_SAVE = "plan.save"
    PROCESS_START = "process.start"
    PROPOSAL_APPROVE = "proposal.approve"
    PROPOSAL_PROPOSE = "proposal.propose"
    PROPOSAL_REJECT = "proposal.reject"
    PROPOSAL_WITHDRAW = "proposal.withdraw"
    QUOTA_DELETE = "quota.delete"
    QUOTA_SET = "quota.set"
    RECORDS_COPY = "records.copy"
    RECORDS_DOWNLOAD = "records.download"
    RECORDS_LOOK_UP = "records.look_up"
    RECORDS_PRODUCE = "records.produce"
    RECORDS_READ = "records.read"
    RECORDS_TAIL = "records.tail"
    RECORDS_TAIL_END = "records.tail_end"
    REPLICA_LOG_DIR = "replica.log_dir"
    REPLICA_LOG_DIR_CANCEL = "replica.log_dir_cancel"
    REPLICA_RECOVER = "replica.recover"
    RESTART_CANCEL = "restart.cancel"
    RESTART_CANCELLED = "restart.cancelled"
    RESTART_CANCELLING = "restart.cancelling"
    RESTART_DONE = "restart.done"
    RESTART_PAUSE = "restart.pause"
    RESTART_PAUSED = "restart.paused"
    RESTART_RESUME = "restart.resume"
    RESTART_RUNNING = "restart.running"
    RESTART_START = "restart.start"
    ROLE_BINDING_CREATE = "role_binding.create"
    ROLE_BINDING_DELETE = "role_binding.delete"
    ROUTE_CHANGE = "route.change"
    ROUTE_CREATE = "route.create"
    ROUTE_DELETE = "route.delete"
    ROUTE_SET = "route.set"
    SCHEMA_DELETE = "schema.delete"
    SCHEMA_REGISTER = "schema.register"
    SCRAM_ALTER = "scram.alter"
    SCRAM_CREATE = "scram.create"
    SCRAM_DELETE = "scram.delete"
    SCRAM_SET = "scram.set"
    SESSION_LOGIN = "session.login"
    SESSION_LOGOUT = "session.logout"
    SHARE_GROUP_DELETE = "share_group.delete"
    SPARK_JOB_CREATE = "spark_job.create"
    SPARK_JOB_DELETE = "spark_job.delete"
    SPARK_JOB_RUN = "spark_job.run"
    SPARK_JOB_SCHEDULE = "spark_job.schedule"
    SPARK_JOB_STOP = "spark_job.stop"
    THRESHOLD_ALTER = "threshold.alter"
    THRESHOLD_OVERRIDE = "threshold.override"
    TOKEN_CREATE = "token.create"
    TOKEN_REVOKE = "token.revoke"
    TOPIC_ADOPT = "topic.adopt"
    TOPIC_ALTER = "topic.alter"
    TOPIC_CREATE = "topic.create"
    TOPIC_DELETE = "topic.delete"
    TOPIC_ELECT = "topic.elect"
    TOPIC_CLIENT_ELECT_PREFERRED = "topic.elect-preferred"
    TOPIC_CLIENT_ELECT_UNCLEAN = "topic.elect-unclean"
    TOPIC_ELECT_PREFERRED = "topic.elect_preferred"
    TOPIC_ELECT_UNCLEAN_AUTOMATICALLY = "topic.elect_unclean_automatically"
    TOPIC_IMPORT = "topic.import"
    TRANSACTION_ABORT = "transaction.abort"
    TRANSACTION_FENCE = "transaction.fence"


LABELS: dict[AuditOperation, str] = {
    AuditOperation.ACL_CREATE: "Create ACL",
    AuditOperation.ACL_DELETE: "Delete ACL",
    AuditOperation.ACL_SET: "Set ACL",
    AuditOperation.ALERT_ACKNOWLEDGE: "Acknowledge alert",
    AuditOperation.ALERT_END_SILENCE: "End silence of alerts",
    AuditOperation.ALERT_NOTE: "Add note to alert",
    AuditOperation.ALERT_SILENCE: "Silence alerts",
    AuditOperation.ALERT_WITHDRAW: "Withdraw acknowledgement of alert",
    AuditOperation.ANOMALY_SWITCH: "Switch alerts about anomalies",
    AuditOperation.ARCHIVE_RESUME: "Resume archive",
    AuditOperation.ARCHIVE_START: "Start archive",
    AuditOperation.ARCHIVE_STOP: "Stop archive",
    AuditOperation.BROKER_CONFIGS: "Alter configs of broker",
    AuditOperation.BROKER_CORDON: "Cordon broker",
    AuditOperation.BROKER_DEMOTE: "Demote broker",
    AuditOperation.BROKER_DRAIN: "Drain broker",
    AuditOperation.BROKER_RESTORE: "Restore broker after drain",
    AuditOperation.BROKER_RESTORE_LEADERSHIP: "Restore leadership of broker",
    AuditOperation.BROKER_SET: "Set configs of broker",
    AuditOperation.BROKER_UNCORDON: "Uncordon broker",
    AuditOperation.CONNECTOR_CHANGE: "Change connector",
    AuditOperation.CONNECTOR_CREATE: "Create connector",
    AuditOperation.CONNECTOR_DELETE: "Delete connector",
    AuditOperation.CONNECTOR_PAUSE: "Pause connector",
    AuditOperation.CONNECTOR_RESTART: "Restart connector",
    AuditOperation.CONNECTOR_RESUME: "Resume connector",
    AuditOperation.CONNECTOR_STOP: "Stop connector",
    AuditOperation.CONSOLE_USER_CREATE: "Create account",
    AuditOperation.CONSOLE_USER_DISABLE: "Disable account",
    AuditOperation.CONSOLE_USER_ENABLE: "Enable account",
    AuditOperation.CONSOLE_USER_REFRESH: "Update account from directory",
    AuditOperation.DEAD_LETTERS_SEND: "Send dead letters again",
    AuditOperation.DELAYED_CANCEL: "Cancel delayed message",
    AuditOperation.DELAYED_LOOK_UP: "Look up delayed message",
    AuditOperation.DOCUMENT_APPLY: "Apply cluster document",
    AuditOperation.DOCUMENT_PLAN: "Plan cluster document",
    AuditOperation.FEATURE_FINALISE: "Finalise feature",
    AuditOperation.GROUP_CANCEL_RESET: "Cancel offset reset of group",
    AuditOperation.GROUP_CONFIGS: "Alter configs of group",
    AuditOperation.GROUP_DELETE: "Delete group",
    AuditOperation.GROUP_DELETE_OFFSETS: "Delete offsets of group",
    AuditOperation.GROUP_REMOVE_MEMBER: "Remove member from group",
    AuditOperation.GROUP_RESET_OFFSETS: "Reset offsets of group",
    AuditOperation.GROUP_SET: "Set configs of group",
    AuditOperation.GROUP_UNDO_RESET: "Undo offset reset of group",
    AuditOperation.GROUP_WAIT_RESET: "Wait to reset offsets of group",
    AuditOperation.HALF_COMMIT: "Commit half message",
    AuditOperation.HALF_ROLLBACK: "Roll back half message",
    AuditOperation.HEALING_ALTER: "Alter self-healing",
    AuditOperation.LAKE_QUERY: "Query the lake",
    AuditOperation.MASKING_CREATE: "Create masking rule",
    AuditOperation.MASKING_DELETE: "Delete masking rule",
    AuditOperation.MOVE_APPROVE: "Approve move",
    AuditOperation.MOVE_APPROVED: "Move approved",
    AuditOperation.MOVE_CANCEL: "Cancel move",
    AuditOperation.MOVE_CANCEL_PART: "Cancel part of move",
    AuditOperation.MOVE_CANCELLED: "Move cancelled",
    AuditOperation.MOVE_CANCELLING: "Move is being cancelled",
    AuditOperation.MOVE_DELETE_RECORDS: "Delete records for move",
    AuditOperation.MOVE_DONE: "Move done",
    AuditOperation.MOVE_END_DRAIN: "End drain of move",
    AuditOperation.MOVE_FAILED: "Move failed",
    AuditOperation.MOVE_PAUSE: "Pause move",
    AuditOperation.MOVE_PAUSED: "Move paused",
    AuditOperation.MOVE_PLAN: "Plan move",
    AuditOperation.MOVE_PLANNED: "Move planned",
    AuditOperation.MOVE_RESUME: "Resume move",
    AuditOperation.MOVE_ROLL_BACK: "Roll back move",
    AuditOperation.MOVE_ROLLED_BACK: "Move rolled back",
    AuditOperation.MOVE_ROLLING_BACK: "Move is being rolled back",
    AuditOperation.MOVE_RUNNING: "Move running",
    AuditOperation.MOVE_SCHEDULE: "Schedule move",
    AuditOperation.MOVE_START: "Start move",
    AuditOperation.MOVE_THROTTLE: "Set throttle of move",
    AuditOperation.MOVE_VERIFYING: "Move is being verified",
    AuditOperation.NOTIFICATION_ALTER: "Alter notification channel",
    AuditOperation.NOTIFICATION_CREATE: "Create notification channel",
    AuditOperation.NOTIFICATION_DELETE: "Delete notification channel",
    AuditOperation.NOTIFICATION_TEST: "Test notification channel",
    AuditOperation.PLAN_APPROVE: "Approve plan",
    AuditOperation.PLAN_DROP: "Archive plan",
    AuditOperation.PLAN_MOVE: "Start move of plan",
    AuditOperation.PLAN_SAVE: "Save plan",
    AuditOperation.PROCESS_START: "Start process",
    AuditOperation.PROPOSAL_APPROVE: "Approve request",
    AuditOperation.PROPOSAL_PROPOSE: "Request approval",
    AuditOperation.PROPOSAL_REJECT: "Reject request",
    AuditOperation.PROPOSAL_WITHDRAW: "Withdraw request",
    AuditOperation.QUOTA_DELETE: "Delete quota",
    AuditOperation.QUOTA_SET: "Set quota",
    AuditOperation.RECORDS_COPY: "Copy records",
    AuditOperation.RECORDS_DOWNLOAD: "Download records",
    AuditOperation.RECORDS_LOOK_UP: "Look up records",
    AuditOperation.RECORDS_PRODUCE: "Produce records",
    AuditOperation.RECORDS_READ: "Read records",
    AuditOperation.RECORDS_TAIL: "Tail records",
    AuditOperation.RECORDS_TAIL_END: "End tail of records",
    AuditOperation.REPLICA_LOG_DIR: "Move replica to log directory",
    AuditOperation.REPLICA_LOG_DIR_CANCEL: "Cancel move of replica to log directory",
    AuditOperation.REPLICA_RECOVER: "Recover replica",
    AuditOperation.RESTART_CANCEL: "Cancel rolling restart",
    AuditOperation.RESTART_CANCELLED: "Rolling restart cancelled",
    AuditOperation.RESTART_CANCELLING: "Rolling restart is being cancelled",
    AuditOperation.RESTART_DONE: "Rolling restart done",
    AuditOperation.RESTART_PAUSE: "Pause rolling restart",
    AuditOperation.RESTART_PAUSED: "Rolling restart paused",
    AuditOperation.RESTART_RESUME: "Resume rolling restart",
    AuditOperation.RESTART_RUNNING: "Rolling restart running",
    AuditOperation.RESTART_START: "Start rolling restart",
    AuditOperation.ROLE_BINDING_CREATE: "Create role binding",
    AuditOperation.ROLE_BINDING_DELETE: "Delete role binding",
    AuditOperation.ROUTE_CHANGE: "Change route",
    AuditOperation.ROUTE_CREATE: "Create route",
    AuditOperation.ROUTE_DELETE: "Delete route",
    AuditOperation.ROUTE_SET: "Set route",
    AuditOperation.SCHEMA_DELETE: "Delete schema",
    AuditOperation.SCHEMA_REGISTER: "Register schema",
    AuditOperation.SCRAM_ALTER: "Alter SCRAM user",
    AuditOperation.SCRAM_CREATE: "Create SCRAM user",
    AuditOperation.SCRAM_DELETE: "Delete SCRAM user",
    AuditOperation.SCRAM_SET: "Set SCRAM user",
    AuditOperation.SESSION_LOGIN: "Log in",
    AuditOperation.SESSION_LOGOUT: "Log out",
    AuditOperation.SHARE_GROUP_DELETE: "Delete share group",
    AuditOperation.SPARK_JOB_CREATE: "Create Spark job",
    AuditOperation.SPARK_JOB_DELETE: "Delete Spark job",
    AuditOperation.SPARK_JOB_RUN: "Run Spark job",
    AuditOperation.SPARK_JOB_SCHEDULE: "Schedule Spark job",
    AuditOperation.SPARK_JOB_STOP: "Stop Spark job",
    AuditOperation.THRESHOLD_ALTER: "Alter threshold",
    AuditOperation.THRESHOLD_OVERRIDE: "Override threshold",
    AuditOperation.TOKEN_CREATE: "Create token",
    AuditOperation.TOKEN_REVOKE: "Revoke token",
    AuditOperation.TOPIC_ADOPT: "Adopt topic",
    AuditOperation.TOPIC_ALTER: "Alter topic",
    AuditOperation.TOPIC_CREATE: "Create topic",
    AuditOperation.TOPIC_DELETE: "Delete topic",
    AuditOperation.TOPIC_ELECT: "Elect unclean leader of topic",
    AuditOperation.TOPIC_CLIENT_ELECT_PREFERRED: "Elect preferred leaders of topic",
    AuditOperation.TOPIC_CLIENT_ELECT_UNCLEAN: "Elect unclean leader of topic",
    AuditOperation.TOPIC_ELECT_PREFERRED: "Elect preferred leaders of topic",
    AuditOperation.TOPIC_ELECT_UNCLEAN_AUTOMATICALLY: "Automatic unclean leader election of topic",
    AuditOperation.TOPIC_IMPORT: "Import topic",
    AuditOperation.TRANSACTION_ABORT: "Abort transaction",
    AuditOperation.TRANSACTION_FENCE: "Fence producer of transaction",
}


def operation_label(code: str) -> str:
    """The label of a stored code. A code of another version has none, and is shown with spaces."""
    try:
        return LABELS[AuditOperation(code)]
    except ValueError:
        return code.replace("_", " ").replace(".", " ")
