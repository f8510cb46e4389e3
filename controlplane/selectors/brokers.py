"""Brokers: the list, one broker, whether it is safe to restart it, and how far a drain is."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from brokerd.cluster.cordons import cordoned, shunned
from controlplane.models import Broker, Move, Replica
from controlplane.models.move import FINISHED_STATES
from controlplane.restarts import blocker
from controlplane.selectors.common import Page, age_s, cluster_row, paged
from controlplane.words import some

TOLD_SECONDS = 60
"""What a broker said about itself longer ago than this proves nothing."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """`answered` False = its last sample failed, None = never asked. Skews are per cent against the mean of living brokers. `cordoned`: no new
    replica comes to it; `leads` False: leadership was taken off it. `held`: replicas that it says lie in its directories, `dirs_failed` the
    directories among them that failed. `can` lists the acts that make sense now."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    failure_domain: str | None
    incarnation: int
    alive: bool
    answered: bool | None
    leaders: int
    replicas: int
    replicas_out_of_sync: int
    size_bytes: int | None
    leaders_skew_pct: float | None
    replicas_skew_pct: float | None
    is_controller: bool
    age_s: float | None
    sample_age_s: float | None
    cordoned: bool
    leads: bool
    held: int | None
    dirs_failed: list[str]
    can: list[str]


@dataclass(frozen=True, slots=True)
class DrainStep:
    """One condition of an empty broker: whether it holds, and what is known in words."""

    step: str
    done: bool
    text: str


@dataclass(frozen=True, slots=True)
class DrainVerdict:
    """`empty`: the metadata log places nothing on it, and it says itself that nothing lies in its directories. `move_id`: the unfinished move
    that takes replicas off it."""

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
    """`blockers` are sentences naming the partitions that say no; `leaders` will move first."""

    safe: bool
    blockers: list[str]
    leaders: int
    age_s: float | None


def broker_list() -> list[BrokerRow]:
    """All brokers ever registered, by id."""
    rows = list(Broker.objects.all())
    living = [b for b in rows if b.alive]
    age = age_s(cluster_row().observed_at)

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
            incarnation=b.incarnation,
            alive=b.alive,
            answered=b.answered,
            leaders=b.leaders,
            replicas=b.replicas,
            replicas_out_of_sync=b.replicas_out_of_sync,
            size_bytes=b.size_bytes,
            leaders_skew_pct=skew(b.leaders, [x.leaders for x in living]) if b.alive else None,
            replicas_skew_pct=skew(b.replicas, [x.replicas for x in living]) if b.alive else None,
            # Controllers are processes of their own; the name stays for the day one sits inside a broker.
            is_controller=False,
            age_s=age,
            sample_age_s=age_s(b.sampled_at),
            cordoned=cordoned(b.configs),
            leads=not shunned(b.configs),
            held=b.held,
            dirs_failed=b.dirs_failed,
            can=_acts(b),
        )
        for b in rows
    ]


def _acts(b: Broker) -> list[str]:
    out = ["uncordon" if cordoned(b.configs) else "cordon", "leaders_back" if shunned(b.configs) else "leaders_off"]
    if b.replicas:
        out.append("drain")
    if b.alive and not cordoned(b.configs):
        out.append("fill")
    return out


def broker(broker_id: int) -> BrokerRow | None:
    return next((b for b in broker_list() if b.broker_id == broker_id), None)


REPLICA_COLUMNS = {
    "topic": "topic_name",
    "size_bytes": "size_bytes",
    "lag_records": "lag_records",
    "in_isr": "in_isr",
}


def broker_replicas(
    broker_id: int, *, query: str = "", sort: str = "topic", page: int = 1, per_page: int = 50
) -> Page[ReplicaRow]:
    """The replicas on one broker. Sort columns: REPLICA_COLUMNS."""
    rows = Replica.objects.filter(broker_id=broker_id).select_related("partition")
    if query:
        rows = rows.filter(topic_name__icontains=query)
    return paged(
        rows,
        lambda found: [
            ReplicaRow(
                topic=r.topic_name,
                index=r.index,
                role="leader" if r.partition.leader == broker_id else "follower" if r.in_isr else "out_of_sync",
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
    """Would acks=all traffic go on and every partition keep a leader while this broker is away? The first reasons are spelled out, the rest
    counted."""
    row = Broker.objects.filter(broker_id=broker_id).first()
    blockers = [blocker(broker_id, *b) for b in row.restart_blockers] if row is not None else []
    if row is not None and row.restart_blocked > len(blockers):
        blockers.append(f"... and {row.restart_blocked - len(blockers)} more partitions.")
    age = age_s(cluster_row().observed_at)
    if age is None or age > 15:
        blockers.insert(0, "What is known of the cluster is older than 15 s; the answer may be wrong.")
    return RestartVerdict(not blockers, blockers, row.leaders if row is not None else 0, age)


def drain_state(broker_id: int) -> DrainVerdict | None:
    """How far this broker is from being empty, step by step. None: there is no such broker."""
    b = Broker.objects.filter(broker_id=broker_id).first()
    if b is None:
        return None
    aside, off = cordoned(b.configs), shunned(b.configs)
    told = age_s(b.sampled_at)
    fresh = told is not None and told < TOLD_SECONDS
    if b.held is None or not fresh:
        own = DrainStep("empty", False, "It has not said lately what lies in its directories.")
    else:
        own = DrainStep(
            "empty",
            not b.held,
            f"It says that {some(b.held, 'replica lies', 'replicas lie') if b.held else 'no replica lies'} in its directories.",
        )
    steps = [
        DrainStep("cordoned", aside, "No new replica comes to it." if aside else "New replicas may still come to it."),
        DrainStep(
            "leaders off", off and not b.leaders,
            f"It leads {b.leaders or 'nothing'}" + ("." if off else ", and leadership was not taken off it."),
        ),
        DrainStep("replicas off", not b.replicas, f"The metadata log places {b.replicas or 'nothing'} on it."),
        own,
    ]  # fmt: skip
    its = Q(scope__broker=broker_id) | Q(scope__rack=b.rack) if b.rack else Q(scope__broker=broker_id)
    moves = Move.objects.exclude(state__in=FINISHED_STATES).filter(its, scope__kind="drain")
    move_id = moves.order_by("-id").values_list("id", flat=True).first()
    return DrainVerdict(all(s.done for s in steps), steps, move_id, age_s(cluster_row().observed_at))
