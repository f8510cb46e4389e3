"""Topics, their configs, and drift between database and cluster. Invariant: a list reads the rows of one page, not of the whole cluster."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, F, Model, OuterRef, Q, QuerySet, Subquery, When
from django_filters import rest_framework as filters

from brokerd.cluster.configs import (
    BOOLEAN,
    DELAY_TOPIC,
    HALF_SOURCE,
    HALF_TOPIC,
    LIST,
    RETRY_SOURCE,
    TOPIC_CONFIGS,
    Definition,
)
from brokerd.cluster.majority_config import MAJORITY_ACKS
from controlplane.domain.config_overlay import apply_overlay
from controlplane.domain.topic_states import UNAPPLIED, ConfigSource, DriftKind, TopicHealth, TopicRowState, TopicSubset
from controlplane.models import ObservedTopic, Topic
from controlplane.selectors.common import FlagFilter, RowFilter, age_s, cluster_row
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.topic_configs import dynamic_topic_defaults
from controlplane.selectors.visibility import GROUP, visible, visible_names
from weir_common.phrases import sentence

CONFIG_DOCS = tuple(d.doc for d in TOPIC_CONFIGS.values())
"""Descriptions of the topic configs."""
FIXED_CONFIGS = frozenset((MAJORITY_ACKS, DELAY_TOPIC, HALF_TOPIC, HALF_SOURCE, RETRY_SOURCE))
"""Configs that no change of an existing topic can set: of its creation, or of its front topics."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """`state`: active, creating, changing, deleting or drift; `health`: the worst condition of its partitions: offline, under_min_isr,
    under_replicated or healthy. `not_preferred`: partitions whose leader is not their preferred replica. `note`: the controller's reason for a delay.
    A value None is unknown. `size_as_of`: the time of the oldest size in
    `size_bytes`, where a leader does not respond; null = all are current."""

    id: uuid.UUID
    name: str
    state: str
    health: str
    note: str
    partitions: int
    replication_factor: int
    internal: bool
    under_replicated: int
    under_min_isr: int
    offline: int
    reassigning: int
    not_preferred: int
    size_bytes: int | None
    size_as_of: datetime | None
    records: int | None
    records_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    replication_bytes_in_per_s: float | None
    cleanup_policy: str
    generation: int
    applied_generation: int

    @property
    def is_active(self) -> bool:
        return self.state == TopicRowState.ACTIVE

    @property
    def is_unapplied(self) -> bool:
        """The controller has not applied the desired state yet."""
        return self.state in UNAPPLIED


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """`default`: the value without an override: of the dynamic configs of all brokers, else Kafka's. `source`: where the value is set. `applied` is the value in the
    cluster. `acts` False = stored and shown only. `choices`: the values that are allowed; empty = any value of its type."""

    name: str
    value: str
    default: str
    source: str
    applied: str | None
    doc: str
    acts: bool
    choices: list[str]

    @property
    def is_override(self) -> bool:
        return self.source == ConfigSource.TOPIC

    @property
    def is_of_cluster(self) -> bool:
        return self.source == ConfigSource.CLUSTER

    @property
    def is_of_move(self) -> bool:
        return self.source == ConfigSource.MOVE

    @property
    def is_fixed(self) -> bool:
        """The value can be set only when the topic is created, or with the config that enables its front topic."""
        return self.name in FIXED_CONFIGS


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with its config overrides and the groups that read it. `age_s`: age of the observed values."""

    row: TopicRow
    configs: dict[str, str]
    assignment: dict[str, list[int]] | None
    created_at: datetime | None
    updated_at: datetime | None
    groups: list[str]
    age_s: float | None


@dataclass(frozen=True, slots=True)
class DriftRow:
    """`kind`: no_row (in the cluster only: adopt it), behind (the row is older than the log: adopt it), missing (it was applied, but the cluster does not have
    it). A row that was never applied is not drift."""

    topic_id: uuid.UUID
    name: str
    kind: str
    row_generation: int | None
    log_generation: int
    explanation: str

    @property
    def can_be_adopted(self) -> bool:
        return self.kind != DriftKind.MISSING

    @property
    def is_unmanaged(self) -> bool:
        return self.kind == DriftKind.NO_ROW


TOPIC_COLUMNS = {"name": "name", "partitions": "partition_count"} | {
    column: column
    for column in (
        *("replication_factor", "under_replicated", "under_min_isr", "offline", "severity"),
        *("size_bytes", "records", "records_per_s", "bytes_in_per_s", "bytes_out_per_s"),
    )
}

SEVERITY = Case(
    When(offline__gt=0, then=3), When(under_min_isr__gt=0, then=2), When(under_replicated__gt=0, then=1), default=0
)
"""The worst condition of the partitions of a topic, in the order of `TopicHealth`: producers are rejected before a topic is only under-replicated."""

NAMES_OFFERED_MAX = 200
"""Maximum number of names that a browser suggests while an operator types. Other names must be typed in full."""

WAITING_SHOWN_MAX = 200
"""Maximum number of topics not applied yet above the first page. The others are counted and can be found by a filter."""


class InternalFilter(FlagFilter):
    def filter(self, rows: QuerySet[Model], value: bool | None) -> QuerySet[Model]:
        return rows if value else rows.filter(internal=False)


class TopicFilter(RowFilter):
    query = filters.CharFilter(field_name="name", lookup_expr="icontains", help_text="Part of a name.")
    internal = InternalFilter(help_text="Internal topics too.")
    state = filters.ChoiceFilter(method="in_state", choices=[(c.value, c.value) for c in TopicSubset])

    def in_state(self, rows: QuerySet[ObservedTopic], name: str, value: str) -> QuerySet[ObservedTopic]:
        if value == TopicSubset.PROBLEMS:
            return rows.filter(Q(under_replicated__gt=0) | Q(offline__gt=0) | Q(under_min_isr__gt=0))
        if value == TopicSubset.MOVING:
            return rows.filter(reassigning__gt=0)
        return rows.filter(id__in=[d.topic_id for d in drift_list()])


def topic_list(
    *,
    query: str = "",
    sort: str = "name",
    page: PageStart = 1,
    per_page: int = 50,
    internal: bool = False,
    state: str = "",
) -> Page[TopicRow]:
    """Topics of the cluster, with those not applied yet above the first page. `state`: "", problems, moving, drift. Sort columns:
    TOPIC_COLUMNS, with a leading '-' for descending."""
    rows = TopicFilter.rows(ObservedTopic.objects.all(), query=query, internal=internal, state=state)
    return topic_page(rows, sort=sort, page=page, per_page=per_page, query=query, unapplied=not state)


def topic_page(
    rows: QuerySet[ObservedTopic], *, sort: str, page: PageStart, per_page: int, query: str = "", unapplied: bool = True
) -> Page[TopicRow]:
    """`unapplied`: with the topics not applied yet whose name contains `query`."""
    if sort.lstrip("-") == "severity":
        rows = rows.annotate(severity=SEVERITY)
    found = paginate(
        rows, _topic_rows, page=page, per_page=per_page, sort=sort, columns=TOPIC_COLUMNS, query=query, tie="name"
    )
    waiting = waiting_count(query) if unapplied else 0
    if not waiting:
        return found
    first = _waiting_rows(query) if found.page == 1 else []
    return replace(found, rows=[*first, *found.rows], total=found.total + waiting)


def topic_names() -> list[str]:
    """The first NAMES_OFFERED_MAX names that the user may see, without internal topics."""
    rows = visible(ObservedTopic.objects.filter(internal=False))
    return list(rows.order_by("name").values_list("name", flat=True)[:NAMES_OFFERED_MAX])


def topic_row(name: str) -> TopicRow | None:
    """One topic by name, also one that is not applied yet; None for an unknown name."""
    seen = visible(ObservedTopic.objects.filter(name=name)).first()
    if seen is not None:
        return _topic_rows([seen])[0]
    desired = visible(Topic.objects.filter(name=name, deleted_at__isnull=True)).first()
    return None if desired is None else _desired_row(desired)


def topic_detail(name: str) -> TopicDetail | None:
    from controlplane.models import GroupPartition

    row = topic_row(name)
    if row is None:
        return None
    desired = Topic.objects.filter(id=row.id).first()
    seen = ObservedTopic.objects.filter(id=row.id).first()
    groups = GroupPartition.objects.filter(visible_names(GROUP, "group_id"), topic=name).order_by("group_id")
    return TopicDetail(
        row=row,
        configs=dict(desired.configs if desired is not None else seen.configs if seen is not None else {}),
        assignment=desired.assignment if desired is not None else None,
        created_at=desired.created_at if desired is not None else None,
        updated_at=desired.updated_at if desired is not None else None,
        groups=list(groups.values_list("group_id", flat=True).distinct()),
        age_s=age_s(cluster_row().observed_at),
    )


def config_choices(definition: Definition) -> list[str]:
    """The values of an enumeration or a boolean, and for a list of two words also both."""
    if definition.kafka_type == BOOLEAN:
        return ["true", "false"]
    words = list(definition.choices or ())
    return [*words, ",".join(words)] if definition.kafka_type == LIST and len(words) == 2 else words


def topic_configs(name: str) -> list[ConfigRow]:
    """Every known config with its value for this topic; overrides first. Empty for an unknown topic."""
    detail = topic_detail(name)
    if detail is None:
        return []
    seen = ObservedTopic.objects.filter(id=detail.row.id).first()
    applied = dict(seen.configs) if seen is not None else {}
    overlay = Topic.objects.filter(id=detail.row.id).values_list("overlay", flat=True).first() or {}
    held, of_brokers = apply_overlay(detail.configs, overlay), dynamic_topic_defaults()
    rows = [
        ConfigRow(
            name=d.name,
            value=held.get(d.name, of_brokers.get(d.name, d.default_text)),
            default=of_brokers.get(d.name, d.default_text),
            source=(
                ConfigSource.MOVE
                if d.name in overlay
                else ConfigSource.TOPIC
                if d.name in detail.configs
                else ConfigSource.CLUSTER
                if d.name in of_brokers
                else ConfigSource.DEFAULT
            ).value,
            applied=applied.get(d.name, of_brokers.get(d.name, d.default_text)) if seen is not None else None,
            doc=d.doc,
            acts=d.acts,
            choices=config_choices(d),
        )
        for d in TOPIC_CONFIGS.values()
    ]
    inherited = (ConfigSource.DEFAULT, ConfigSource.CLUSTER)
    return sorted(rows, key=lambda r: (r.source in inherited, r.source == ConfigSource.DEFAULT, r.name))


def _drift() -> tuple[QuerySet[ObservedTopic], Any, QuerySet[Topic]]:
    """Topics of the cluster without a row, those with an older row, and applied rows without a topic."""
    rows = Topic.objects.filter(id=OuterRef("id"))
    living = rows.filter(deleted_at__isnull=True)
    older = Subquery(living.values("generation")[:1])
    return (
        visible(ObservedTopic.objects.filter(~Exists(rows))),
        visible(ObservedTopic.objects.annotate(row_generation=older).filter(row_generation__lt=F("generation"))),
        visible(
            Topic.objects.filter(deleted_at__isnull=True, applied_generation__gt=0).filter(
                ~Exists(ObservedTopic.objects.filter(id=OuterRef("id")))
            )
        ),
    )


def drift_list() -> list[DriftRow]:
    """Differences between database and metadata log that no pending change explains. They are reported, and nothing is changed."""
    no_row, behind, missing = _drift()
    out = [
        DriftRow(
            t.id,
            t.name,
            DriftKind.NO_ROW,
            None,
            t.generation,
            sentence(
                "This topic exists in the cluster, but is not managed by Weir. Weir does not change it until you adopt it."
            ),
        )
        for t in no_row
    ]
    for topic_id, name, generation, row_generation in behind.values_list("id", "name", "generation", "row_generation"):
        text = sentence(
            "The database is older (generation {row_generation}) than the cluster ({generation}), for example after a restore. It is not changed; "
            "adopt the cluster's state.",
            row_generation=row_generation,
            generation=generation,
        )
        out.append(DriftRow(topic_id, name, DriftKind.BEHIND, row_generation, generation, text))
    out += [
        DriftRow(
            t.id,
            t.name,
            DriftKind.MISSING,
            t.generation,
            0,
            sentence(
                "The database says this topic was applied, but the cluster does not have it. Nothing is created for it again; delete the row if the "
                "topic is not needed any more."
            ),
        )
        for t in missing
    ]
    return sorted(out, key=lambda d: d.name)


def drift_count() -> int:
    return sum(rows.count() for rows in _drift())


def waiting_count(query: str = "") -> int:
    """The number of desired topics that the cluster does not have yet."""
    return _desired_only(query).count()


def _desired_only(query: str) -> QuerySet[Topic]:
    rows = Topic.objects.filter(deleted_at__isnull=True, applied_generation__lt=F("generation"), name__icontains=query)
    return visible(rows.exclude(id__in=ObservedTopic.objects.values("id")))


def _waiting_rows(query: str) -> list[TopicRow]:
    return [_desired_row(t) for t in _desired_only(query).order_by("name")[:WAITING_SHOWN_MAX]]


def _desired_row(topic: Topic) -> TopicRow:
    state = TopicRowState.CREATING if topic.applied_generation == 0 else TopicRowState.DRIFT
    return TopicRow(
        id=topic.id,
        name=topic.name,
        state=state.value,
        health=TopicHealth.HEALTHY.value,
        note=topic.note,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        internal=topic.internal,
        under_replicated=0,
        under_min_isr=0,
        offline=0,
        reassigning=0,
        not_preferred=0,
        size_bytes=None,
        size_as_of=None,
        records=None,
        records_per_s=None,
        bytes_in_per_s=None,
        bytes_out_per_s=None,
        replication_bytes_in_per_s=None,
        cleanup_policy=topic.configs.get("cleanup.policy", "delete"),
        generation=topic.generation,
        applied_generation=topic.applied_generation,
    )


def health_of(offline: int, under_min_isr: int, under_replicated: int) -> str:
    """The most severe condition with a count above zero."""
    kinds = (
        (TopicHealth.OFFLINE, offline),
        (TopicHealth.UNDER_MIN_ISR, under_min_isr),
        (TopicHealth.UNDER_REPLICATED, under_replicated),
    )
    return next((kind.value for kind, count in kinds if count), TopicHealth.HEALTHY.value)


def _topic_rows(topics: Sequence[ObservedTopic]) -> list[TopicRow]:
    desired = {t.id: t for t in Topic.objects.filter(id__in=[s.id for s in topics])}
    rows = []
    for observed in topics:
        row = desired.get(observed.id)
        if row is None or row.generation < observed.generation:
            state = TopicRowState.DRIFT
        elif row.deleted_at is not None:
            state = TopicRowState.DELETING
        elif row.generation > observed.generation:
            state = TopicRowState.CHANGING
        else:
            state = TopicRowState.ACTIVE if observed.ready else TopicRowState.CREATING
        rows.append(
            TopicRow(
                id=observed.id,
                name=observed.name,
                state=state.value,
                health=health_of(observed.offline, observed.under_min_isr, observed.under_replicated),
                note=row.note if row is not None else "",
                partitions=observed.partition_count,
                replication_factor=observed.replication_factor,
                internal=observed.internal,
                under_replicated=observed.under_replicated,
                under_min_isr=observed.under_min_isr,
                offline=observed.offline,
                reassigning=observed.reassigning,
                not_preferred=observed.not_preferred,
                size_bytes=observed.size_bytes,
                size_as_of=observed.size_as_of,
                records=observed.records,
                records_per_s=observed.records_per_s,
                bytes_in_per_s=observed.bytes_in_per_s,
                bytes_out_per_s=observed.bytes_out_per_s,
                replication_bytes_in_per_s=observed.replication_bytes_in_per_s,
                cleanup_policy=observed.configs.get("cleanup.policy", "delete"),
                generation=row.generation if row is not None else observed.generation,
                applied_generation=observed.generation,
            )
        )
    return rows
