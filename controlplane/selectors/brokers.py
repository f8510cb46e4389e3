"""Brokers: the list, one broker, whether it is safe to restart it, and the progress of a drain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from brokerd.cluster.broker_lives import explain_doubt
from brokerd.cluster.cordons import is_cordoned, leadership_disabled
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.wire.errors import error_name
from controlplane.domain.alert_cases import disk_severity
from controlplane.domain.broker_metrics import StoredApi
from controlplane.domain.page_phrases import BROKER_SILENT, MORE_BLOCKERS, NO_CONTROLLER, OLD_STATE
from controlplane.domain.restart import blocker
from controlplane.domain.scope import DrainScope, Scope
from controlplane.domain.text import coarse_duration
from controlplane.models import Broker, Move, ObservedReplica
from controlplane.models.move import FINISHED_STATES
from controlplane.selectors import alert_thresholds
from controlplane.selectors.common import RowFilter, age_s, cluster_row
from controlplane.selectors.paging import Page, PageStart, numbered_page, paginate
from controlplane.selectors.visibility import BROKER, TOPIC, sees, sees_all, visible
from weir_common.phrases import counted, sentence

REPORT_AGE_SECONDS_MAX = 60
"""Maximum age of a broker's report about itself. Older reports are not used."""


SAMPLE_AGE_SECONDS_MAX = 30
"""Age of the last response of a broker above which its values are marked as old. The monitor asks each broker every few seconds."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """`answered` False = its last sample failed, None = none was requested: it is down or has just registered. Skews are per cent against the mean of live brokers. `cordoned`: the broker gets no
    new replicas; `total_bytes`, `free_bytes`: its log directory with the most free space, `disk_alert`: the severity of an alert about its free space, or
    empty; `leads` False: the broker is demoted. `replicas_on_disk`: replicas in its log directories by its own report, `dirs_failed`: the failed ones of
    these directories, `dirs_hung`: those of the failed ones whose disk did not respond, `dirs_slow`: those with a slow disk, `dir_probe_ms`: ms of the last
    probe by directory. `started_at`: start of its process, null = not reported; `unclean_start`: its run before ended without a clean shutdown. `tail_doubt`:
    why it may have lost acknowledged records before its last start ("" = no doubt), with the reason in words and the next step, if there is one. `can` lists
    the operations that are possible now."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    failure_domain: str | None
    broker_epoch: int
    alive: bool
    answered: bool | None
    leaders: int
    replicas: int
    replicas_out_of_sync: int
    size_bytes: int | None
    total_bytes: int | None
    free_bytes: int | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    replication_bytes_in_per_s: float | None
    replication_bytes_out_per_s: float | None
    disk_alert: str
    leaders_skew_pct: float | None
    replicas_skew_pct: float | None
    is_controller: bool
    age_s: float | None
    sample_age_s: float | None
    cordoned: bool
    leads: bool
    replicas_on_disk: int | None
    dirs_failed: list[str]
    dirs_slow: list[str]
    dirs_hung: list[str]
    dir_probe_ms: dict[str, int]
    started_at: datetime | None
    unclean_start: bool
    tail_doubt: str
    tail_doubt_reason: str
    tail_doubt_action: str
    can: list[str]

    @property
    def is_sample_old(self) -> bool:
        return self.sample_age_s is not None and self.sample_age_s > SAMPLE_AGE_SECONDS_MAX

    @property
    def started_s(self) -> float | None:
        return age_s(self.started_at) if self.alive else None

    @property
    def stale_age_s(self) -> float | None:
        """Age of the values of a broker that does not respond; None: they are current."""
        return self.sample_age_s if not self.alive or self.answered is False else None


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """`code`: Kafka's name of the error, or its number if it has none."""

    code: str
    per_s: float


@dataclass(frozen=True, slots=True)
class ApiRow:
    """The requests of one API to a broker in the last seconds. `name`: Kafka's name; FetchConsumer and FetchFollower are separate rows. Times are total times
    in ms, from the request to its response, with waiting: percentiles are upper bounds of a histogram, null without requests; `greatest_ms` is of the
    last one to two minutes."""

    name: str
    requests_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    greatest_ms: float
    errors_per_s: float
    errors: list[ErrorRate]


REJECTION_REASONS: tuple[str, ...] = tuple(RejectionReason)


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """Requests or connections that a broker rejected or throttled for one reason. `total`: since its start. `per_s`: in the last seconds."""

    reason: str
    total: int
    per_s: float


@dataclass(frozen=True, slots=True)
class DrainStep:
    """One condition of an empty broker: whether it is met, and the details in words."""

    step: str
    done: bool
    text: str


@dataclass(frozen=True, slots=True)
class DrainVerdict:
    """`empty`: the metadata log assigns no replica to the broker, and the broker reports empty log directories. `move_id`: the unfinished move that
    removes its replicas."""

    empty: bool
    steps: list[DrainStep]
    move_id: int | None
    age_s: float | None


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica on a broker. `role`: leader, follower or out_of_sync."""

    topic: str
    index: int
    role: str
    leader: int | None
    replicas: list[int]
    isr: list[int]
    lag_records: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """`blockers` are sentences that name the partitions that block a restart; `leaders` will move first."""

    safe: bool
    blockers: list[str]
    leaders: int
    age_s: float | None


def visible_brokers() -> list[BrokerRow]:
    """The brokers that the user may see, by id. The skews of a user who sees only some are unknown: they are shares of the whole cluster."""
    rows = broker_list()
    if sees_all(BROKER):
        return rows
    own = (replace(b, leaders_skew_pct=None, replicas_skew_pct=None) for b in rows)
    return [b for b in own if sees(BROKER, str(b.broker_id))]


def broker_list() -> list[BrokerRow]:
    """All brokers ever registered, by id, without the filter by visibility."""
    rows = list(Broker.objects.all())
    living = [b for b in rows if b.alive]
    age, thresholds = age_s(cluster_row().observed_at), alert_thresholds.current_thresholds()

    def skew(value: int, values: list[int]) -> float | None:
        mean = sum(values) / len(values) if values else 0
        return None if not mean else round((value - mean) / mean * 100, 1)

    return [
        BrokerRow(
            broker_id=b.broker_id,
            host=b.host,
            port=b.port,
            rack=b.rack,
            failure_domain=b.failure_domain,
            broker_epoch=b.broker_epoch,
            alive=b.alive,
            answered=b.answered,
            leaders=b.leaders,
            replicas=b.replicas,
            replicas_out_of_sync=b.replicas_out_of_sync,
            size_bytes=b.size_bytes,
            total_bytes=b.total_bytes,
            free_bytes=b.free_bytes,
            bytes_in_per_s=b.bytes_in_per_s,
            bytes_out_per_s=b.bytes_out_per_s,
            replication_bytes_in_per_s=b.replication_bytes_in_per_s,
            replication_bytes_out_per_s=b.replication_bytes_out_per_s,
            disk_alert=str(disk_severity(b.total_bytes, b.free_bytes, thresholds, b.broker_id) or ""),
            leaders_skew_pct=skew(b.leaders, [x.leaders for x in living]) if b.alive else None,
            replicas_skew_pct=skew(b.replicas, [x.replicas for x in living]) if b.alive else None,
            # Controllers are separate processes. The field exists for a controller that runs inside a broker.
            is_controller=False,
            age_s=age,
            sample_age_s=age_s(b.sampled_at),
            cordoned=is_cordoned(b.configs),
            leads=not leadership_disabled(b.configs),
            replicas_on_disk=b.replicas_on_disk,
            dirs_failed=b.dirs_failed,
            dirs_slow=b.dirs_slow,
            dirs_hung=b.dirs_hung,
            dir_probe_ms=b.dir_probe_ms,
            started_at=b.started_at,
            unclean_start=b.unclean_start,
            tail_doubt=b.tail_doubt,
            tail_doubt_reason=explain_doubt(b.tail_doubt)[0],
            tail_doubt_action=explain_doubt(b.tail_doubt)[1],
            can=_acts(b),
        )
        for b in rows
    ]


BROKER_COLUMNS: dict[str, Callable[[BrokerRow], Any]] = {
    "broker_id": lambda b: b.broker_id,
    "alive": lambda b: (not b.alive, b.answered is False),
    "host": lambda b: (b.host, b.port),
    "rack": lambda b: b.rack,
    "leaders": lambda b: b.leaders,
    "leaders_skew_pct": lambda b: b.leaders_skew_pct,
    "replicas": lambda b: b.replicas,
    "replicas_skew_pct": lambda b: b.replicas_skew_pct,
    "replicas_out_of_sync": lambda b: b.replicas_out_of_sync,
    "size_bytes": lambda b: b.size_bytes,
    "free_bytes": lambda b: b.free_bytes,
    "broker_epoch": lambda b: b.broker_epoch,
}
"""Columns by which the list is sorted, with their values."""


def broker_page(*, sort: str = "broker_id", page: PageStart = 1, per_page: int = 50) -> Page[BrokerRow]:
    """The list in this order, by id for an unknown column. Unknown values are last in both directions."""
    column, descending = sort.removeprefix("-"), sort.startswith("-")
    if column not in BROKER_COLUMNS:
        sort, column, descending = "broker_id", "broker_id", False
    value, rows = BROKER_COLUMNS[column], visible_brokers()
    known = sorted((b for b in rows if value(b) is not None), key=value, reverse=descending)
    found = [*known, *(b for b in rows if value(b) is None)]
    start, window = numbered_page(len(found), page, per_page)
    return Page(found[start : start + window.per_page], len(found), window, sort, "")


def _acts(broker: Broker) -> list[str]:
    out = [
        "uncordon" if is_cordoned(broker.configs) else "cordon",
        "restore_leadership" if leadership_disabled(broker.configs) else "demote",
    ]
    if is_cordoned(broker.configs) and leadership_disabled(broker.configs):
        out.append("restore")
    if broker.replicas:
        out.append("drain")
    if broker.alive and not is_cordoned(broker.configs):
        out.append("fill")
    return out


def broker(broker_id: int) -> BrokerRow | None:
    return next((b for b in visible_brokers() if b.broker_id == broker_id), None)


REPLICA_COLUMNS = {"topic": "topic_name", "size_bytes": "size_bytes", "lag_records": "lag_records", "in_isr": "in_isr"}


REPLICA_FIELDS = (
    *("broker_id", "topic_name", "index", "in_isr", "lag_records", "size_bytes"),
    *("partition__leader", "partition__replicas", "partition__isr"),
)


class ReplicaFilter(RowFilter):
    query = filters.CharFilter(field_name="topic_name", lookup_expr="icontains", help_text="Part of a topic's name.")


def broker_replicas(
    broker_id: int, *, query: str = "", sort: str = "topic", page: PageStart = 1, per_page: int = 50
) -> Page[ReplicaRow]:
    """The replicas on one broker. Sort columns: REPLICA_COLUMNS."""
    rows = ReplicaFilter.rows(replicas_on(broker_id), query=query)
    return replica_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def replicas_on(broker_id: int) -> QuerySet[ObservedReplica]:
    return ObservedReplica.objects.filter(broker_id=broker_id)


def replica_page(
    rows: QuerySet[ObservedReplica], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[ReplicaRow]:
    return paginate(
        # A partition has a dozen JSON columns: without `only`, decoding them takes longer than the query.
        rows.select_related("partition").only(*REPLICA_FIELDS),
        lambda found: [
            ReplicaRow(
                topic=r.topic_name,
                index=r.index,
                role="leader" if r.partition.leader == r.broker_id else "follower" if r.in_isr else "out_of_sync",
                leader=r.partition.leader,
                replicas=r.partition.replicas,
                isr=r.partition.isr,
                lag_records=r.lag_records,
                size_bytes=r.size_bytes,
            )
            for r in found
        ],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=REPLICA_COLUMNS,
        query=query,
        tie="index",
    )


def safe_to_restart(broker_id: int) -> RestartVerdict:
    """Return whether acks=all traffic continues and every partition keeps a leader without this broker. The verdict lists the first reasons and counts the
    others. Without an active controller no leader can move, and the state of a broker that does not respond is not known to be current."""
    row = Broker.objects.filter(broker_id=broker_id).first()
    found = [b for b in row.restart_blockers if sees(TOPIC, b[0])] if row is not None else []
    blockers = [blocker(broker_id, *b) for b in found]
    if row is not None and row.restart_blocked > len(blockers):
        blockers.append(counted(row.restart_blocked - len(blockers), *MORE_BLOCKERS))
    cluster = cluster_row()
    age = age_s(cluster.observed_at)
    if row is not None and row.alive and row.answered is False:
        blockers.insert(0, sentence(BROKER_SILENT, age=coarse_duration(age_s(row.sampled_at) or 0.0)))
    if cluster.controller_id is None:
        blockers.insert(0, sentence(NO_CONTROLLER))
    if age is None or age > 15:
        blockers.insert(0, sentence(OLD_STATE))
    return RestartVerdict(not blockers, blockers, row.leaders if row is not None else 0, age)


def out_of_service(scope: Scope) -> list[BrokerRow]:
    """The cordoned or demoted brokers among those that a move of this scope drains."""
    named = set(drained_by(scope))
    return [b for b in broker_list() if b.broker_id in named and (b.cordoned or not b.leads)] if named else []


def drain_state(broker_id: int) -> DrainVerdict | None:
    """The progress of a drain, condition by condition. None: unknown broker."""
    broker = Broker.objects.filter(broker_id=broker_id).first()
    if broker is None:
        return None
    aside, off = is_cordoned(broker.configs), leadership_disabled(broker.configs)
    sampled_age_s = age_s(broker.sampled_at)
    fresh = sampled_age_s is not None and sampled_age_s < REPORT_AGE_SECONDS_MAX
    if broker.replicas_on_disk is None or not fresh:
        own = DrainStep("empty", False, sentence("The broker has not reported its log directories recently."))
    else:
        own = DrainStep(
            "empty",
            not broker.replicas_on_disk,
            counted(broker.replicas_on_disk, "Reports {count} replica on disk.", "Reports {count} replicas on disk.")
            if broker.replicas_on_disk
            else sentence("Reports no replica on disk."),
        )
    steps = [
        DrainStep(
            "cordoned",
            aside,
            sentence("No new replicas are assigned to it.")
            if aside
            else sentence("New replicas may still be assigned to it."),
        ),
        DrainStep(
            "leaders off",
            off and not broker.leaders,
            counted(broker.leaders, "Leads {count} partition.", "Leads {count} partitions.")
            if off
            else counted(
                broker.leaders,
                "Leads {count} partition; leadership is not off.",
                "Leads {count} partitions; leadership is not off.",
            ),
        ),
        DrainStep(
            "replicas off",
            not broker.replicas,
            counted(broker.replicas, "{count} replica is assigned to it.", "{count} replicas are assigned to it."),
        ),
        own,
    ]
    its = Q(scope__broker=broker_id) | Q(scope__rack=broker.rack) if broker.rack else Q(scope__broker=broker_id)
    moves = visible(Move.objects.exclude(state__in=FINISHED_STATES).filter(its, scope__kind="drain"))
    move_id = moves.order_by("-id").values_list("id", flat=True).first()
    return DrainVerdict(all(s.done for s in steps), steps, move_id, age_s(cluster_row().observed_at))


def drained_by(scope: Scope) -> list[int]:
    """Brokers that a move of this scope drains; empty for other kinds of moves."""
    if not isinstance(scope, DrainScope):
        return []
    if scope.broker is not None:
        return [scope.broker]
    return list(Broker.objects.filter(rack=scope.rack).order_by("broker_id").values_list("broker_id", flat=True))


def broker_requests(broker_id: int) -> list[ApiRow]:
    """The requests of a broker by API, the most frequent first. Empty if it has not reported them."""
    stored = Broker.objects.filter(broker_id=broker_id).values_list("requests", flat=True).first() or []
    return sorted((api_row(r) for r in stored), key=lambda r: (-r.requests_per_s, r.name))


def broker_rejections(broker_id: int) -> list[RefusalRow]:
    """The rejected requests of a broker by reason, the most frequent first. Empty if there are none, or if it has not reported them."""
    stored = Broker.objects.filter(broker_id=broker_id).values_list("refusals", flat=True).first() or []
    return [RefusalRow(r["reason"], r["total"], r["per_s"]) for r in stored]


def api_row(stored: StoredApi) -> ApiRow:
    errors = sorted(stored["errors"].items(), key=lambda e: -e[1])
    return ApiRow(
        name=stored["name"],
        requests_per_s=stored["requests_per_s"],
        p50_ms=stored["p50_ms"],
        p99_ms=stored["p99_ms"],
        greatest_ms=stored["greatest_ms"],
        errors_per_s=round(sum(rate for _, rate in errors), 3),
        errors=[ErrorRate(error_name(int(code)), rate) for code, rate in errors],
    )
