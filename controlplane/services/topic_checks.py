"""Checks of a requested topic: its name, counts, configs and assignment, and whether its row is as new as the cluster. Each raises Rejected.

Does not contain: writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerd.cluster.configs import contradiction, topic_config_problem
from brokerd.cluster.cordons import is_cordoned
from brokerd.cluster.majority_config import replication_problem
from brokerd.cluster.model import topic_name_problem, topic_names_collide
from controlplane.domain.limits import TOPIC_PARTITIONS_MAX
from controlplane.models import Broker, ObservedTopic, Topic
from controlplane.services.common import AlreadyExists, Rejected
from weir_common.phrases import counted, sentence


def check_topic(
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    assignment: Mapping[int, Sequence[int]] | None = None,
    checked: bool = False,
) -> None:
    """Check a requested topic, as `topics.create_topic` does. Raises Rejected with the first problem, and AlreadyExists."""
    if (problem := topic_name_problem(name)) is not None:
        raise Rejected(problem, "name")
    if Topic.objects.filter(name=name, deleted_at__isnull=True).exists():
        raise AlreadyExists(
            sentence("Topic {name} already exists; choose another name or alter the topic.", name=repr(name)), "name"
        )
    if not checked and (seen := ObservedTopic.objects.filter(name=name).first()) is not None:
        if Topic.objects.filter(id=seen.id, deleted_at__isnull=False).exists():
            raise Rejected(
                sentence("Topic {name} is being deleted; try again in a few seconds.", name=repr(name)), "name"
            )
        raise Rejected(
            sentence(
                "Topic {name} exists in the cluster but not in the database (drift); adopt it instead.", name=repr(name)
            ),
            "name",
        )
    if "." in name or "_" in name:
        pattern = "^" + "".join("[._]" if c in "._" else c for c in name) + "$"
        for other in Topic.objects.filter(deleted_at__isnull=True, name__regex=pattern).values_list("name", flat=True):
            if topic_names_collide(name, other):
                raise Rejected(
                    sentence(
                        "Topic {name} differs from {other} only in '.' and '_', and Kafka's metric names would be the same; choose another name.",
                        name=repr(name),
                        other=repr(other),
                    ),
                    "name",
                )
    check_counts(partitions, replication_factor, against_brokers=not checked)
    check_configs(configs)
    check_together({k: str(v) for k, v in configs.items()})
    if (problem := replication_problem({k: str(v) for k, v in configs.items()}, replication_factor)) is not None:
        raise Rejected(problem, "replication_factor")
    if assignment is not None:
        check_assignment(assignment, range(partitions), against_brokers=not checked)


def check_counts(partitions: int, replication_factor: int, *, against_brokers: bool = True) -> None:
    """Raises Rejected for a number of partitions or replicas that no topic can have."""
    if partitions < 1:
        raise Rejected(
            sentence("{partitions} partitions are too few; the minimum is 1.", partitions=partitions), "partitions"
        )
    if partitions > TOPIC_PARTITIONS_MAX:
        raise Rejected(
            sentence(
                "{partitions} partitions are too many; the maximum is {max}.",
                partitions=partitions,
                max=TOPIC_PARTITIONS_MAX,
            ),
            "partitions",
        )
    if replication_factor < 1:
        raise Rejected(
            sentence(
                "Replication factor {replication_factor} is too small; the minimum is 1.",
                replication_factor=replication_factor,
            ),
            "replication_factor",
        )
    known = Broker.objects.count() if against_brokers else 0
    # Without any broker row the monitor has not polled yet: the controller will check.
    if known and replication_factor > known:
        raise Rejected(
            sentence(
                "Replication factor {replication_factor} is larger than the number of brokers ({known}); lower it, or add brokers.",
                replication_factor=replication_factor,
                known=known,
            ),
            "replication_factor",
        )
    aside = sorted(b.broker_id for b in Broker.objects.all() if is_cordoned(b.configs)) if against_brokers else []
    if aside and replication_factor > known - len(aside):
        raise Rejected(
            counted(
                len(aside),
                "Replication factor {factor} is larger than the number of brokers that can take replicas ({known}): {brokers} is cordoned; uncordon a "
                "broker, or lower the replication factor.",
                "Replication factor {factor} is larger than the number of brokers that can take replicas ({known}): {brokers} are cordoned; uncordon a "
                "broker, or lower the replication factor.",
                factor=replication_factor,
                known=known - len(aside),
                brokers=[str(b) for b in aside],
            ),
            "replication_factor",
        )


def check_drift(row: Topic) -> None:
    seen = ObservedTopic.objects.filter(id=row.id).only("generation").first()
    if seen is not None and seen.generation > row.generation:
        raise Rejected(
            sentence(
                "The database has generation {generation} of {name}, the cluster has {generation_2} (drift, for example after a restore); adopt the cluster's state first.",
                generation=row.generation,
                name=repr(row.name),
                generation_2=seen.generation,
            ),
            "name",
        )


def check_together(configs: Mapping[str, str]) -> None:
    if (problem := contradiction(configs)) is not None:
        raise Rejected(problem, "configs")


def check_configs(configs: Mapping[str, str]) -> None:
    for name, value in configs.items():
        if (problem := topic_config_problem(name, str(value))) is not None:
            raise Rejected(problem, f"configs.{name}")


def check_assignment(assignment: Mapping[int, Sequence[int]], expected: range, *, against_brokers: bool = True) -> None:
    if sorted(assignment) != list(expected):
        raise Rejected(
            sentence(
                "The assignment has partitions {assignment}; it must have {start} to {stop}, each once.",
                assignment=sorted(assignment),
                start=expected.start,
                stop=expected.stop - 1,
            ),
            "assignment",
        )
    known = set(Broker.objects.values_list("broker_id", flat=True)) if against_brokers else set()
    sizes = {len(replicas) for replicas in assignment.values()}
    if len(sizes) > 1:
        raise Rejected("All partitions of an assignment need the same number of replicas.", "assignment")
    for partition, replicas in assignment.items():
        if not replicas or len(set(replicas)) != len(replicas):
            raise Rejected(
                sentence(
                    "Partition {partition} has no replica or a duplicate: {replicas}.",
                    partition=partition,
                    replicas=list(replicas),
                ),
                "assignment",
            )
        if known and (strange := [b for b in replicas if b not in known]):
            raise Rejected(
                sentence(
                    "Partition {partition} has broker {strange}, which has never registered; known brokers: {known}.",
                    partition=partition,
                    strange=strange[0],
                    known=sorted(known),
                ),
                "assignment",
            )
