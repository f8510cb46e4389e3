"""Database tables. Desired state (topic, access), observed state (cluster) and jobs with their history (change, move, job) have separate tables.
Only the monitor writes observed rows, only services write desired rows.
"""

from controlplane.models.access import AccessEntry, Acl
from controlplane.models.alert import (
    Alert,
    AlertEntry,
    AlertSilence,
    AlertThreshold,
    AlertThresholdOverride,
    AlertThresholdVersion,
)
from controlplane.models.anomaly import Anomaly, AnomalySwitch
from controlplane.models.api_token import ApiToken
from controlplane.models.change import Change, ChangeSeal
from controlplane.models.change_phrase import ChangePhrase
from controlplane.models.cluster import (
    Broker,
    Cluster,
    ClusterEvent,
    ConsumerGroup,
    Feature,
    GroupPartition,
    HangingTransaction,
    LogEnds,
    ObservedPartition,
    ObservedReplica,
    ObservedTopic,
    RemoteSize,
)
from controlplane.models.connect import ConnectCluster
from controlplane.models.dead_letter import DeadLetterBatch, SentDeadLetter
from controlplane.models.document import DocumentPlan, ManagedResource
from controlplane.models.external_identity import ExternalIdentity
from controlplane.models.healing import HealingRun, HealingSetting
from controlplane.models.health import HealthFailure, HealthResult
from controlplane.models.history import HistoryChunk, HistoryFrame, HistorySeries
from controlplane.models.idempotency import IdempotencyKey
from controlplane.models.job import ArchiveBatch, ArchiveJob, ReplicaDamageReport, ReplicaRecovery
from controlplane.models.login import LoginFailure
from controlplane.models.masking import MaskingRule
from controlplane.models.message_metrics import ShareGroupLetters, TopicMessages
from controlplane.models.metadata_history import MetadataImage, MetadataSegment
from controlplane.models.move import Move, MovePartition, MoveTransition
from controlplane.models.notification import NotificationChannel, NotificationDelivery
from controlplane.models.offset_reset import OffsetReset
from controlplane.models.other_cluster import OtherCluster
from controlplane.models.plan import Plan, PlanChunk
from controlplane.models.proposal import Proposal
from controlplane.models.restart import RestartStep, RollingRestart
from controlplane.models.role_binding import RoleBinding
from controlplane.models.saved_view import HiddenColumns, SavedView
from controlplane.models.share_group import ShareGroupPartition
from controlplane.models.spark import SparkJob, SparkRun
from controlplane.models.topic import HandledRequest, Topic
from controlplane.models.truncation import ReplicaTruncation

__all__ = [
    "AccessEntry",
    "Acl",
    "Alert",
    "AlertEntry",
    "AlertSilence",
    "AlertThreshold",
    "AlertThresholdOverride",
    "AlertThresholdVersion",
    "Anomaly",
    "AnomalySwitch",
    "ApiToken",
    "ArchiveBatch",
    "ArchiveJob",
    "Broker",
    "Change",
    "ChangePhrase",
    "ChangeSeal",
    "Cluster",
    "ClusterEvent",
    "ConnectCluster",
    "ConsumerGroup",
    "DeadLetterBatch",
    "DocumentPlan",
    "ExternalIdentity",
    "Feature",
    "GroupPartition",
    "HandledRequest",
    "HangingTransaction",
    "HealingRun",
    "HealingSetting",
    "HealthFailure",
    "HealthResult",
    "HiddenColumns",
    "HistoryChunk",
    "HistoryFrame",
    "HistorySeries",
    "IdempotencyKey",
    "LogEnds",
    "LoginFailure",
    "ManagedResource",
    "MaskingRule",
    "MetadataImage",
    "MetadataSegment",
    "Move",
    "MovePartition",
    "MoveTransition",
    "NotificationChannel",
    "NotificationDelivery",
    "ObservedPartition",
    "ObservedReplica",
    "ObservedTopic",
    "OffsetReset",
    "OtherCluster",
    "Plan",
    "PlanChunk",
    "Proposal",
    "RemoteSize",
    "ReplicaDamageReport",
    "ReplicaRecovery",
    "ReplicaTruncation",
    "RestartStep",
    "RoleBinding",
    "RollingRestart",
    "SavedView",
    "SentDeadLetter",
    "ShareGroupLetters",
    "ShareGroupPartition",
    "SparkJob",
    "SparkRun",
    "Topic",
    "TopicMessages",
]
