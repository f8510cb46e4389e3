"""The tables. Law: what is wanted (topic, access), what is observed (cluster, observed) and what was intended (change, move, job)
are three things and never one table. Observed rows are written by the observer only, wanted rows by services only."""

from controlplane.models.access import AccessEntry, Acl
from controlplane.models.alert import Alert
from controlplane.models.change import Change, ChangeSeal
from controlplane.models.cluster import (
    Broker,
    Cluster,
    ConsumerGroup,
    Feature,
    GroupPartition,
    ObservedTopic,
    Partition,
    Replica,
)
from controlplane.models.job import ArchiveBatch, ArchiveJob, ReplicaFinding, ReplicaRecovery
from controlplane.models.move import Move, MovePartition, MoveTransition
from controlplane.models.plan import Plan, PlanChunk
from controlplane.models.proposal import Proposal
from controlplane.models.restart import RestartStep, RollingRestart
from controlplane.models.topic import HandledRequest, Topic

__all__ = [
    "AccessEntry",
    "Acl",
    "Alert",
    "ArchiveBatch",
    "ArchiveJob",
    "Broker",
    "Change",
    "ChangeSeal",
    "Cluster",
    "ConsumerGroup",
    "Feature",
    "GroupPartition",
    "HandledRequest",
    "Move",
    "MovePartition",
    "MoveTransition",
    "ObservedTopic",
    "Partition",
    "Plan",
    "PlanChunk",
    "Proposal",
    "Replica",
    "ReplicaFinding",
    "ReplicaRecovery",
    "RestartStep",
    "RollingRestart",
    "Topic",
]
