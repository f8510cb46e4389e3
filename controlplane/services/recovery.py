"""Replica recovery: throw one copy away and fetch it anew. Law: never the last copy in sync; the row is the queue, the controller
appends the reset, the observer sees the replica return. What the controller resets by itself (decision 037) leaves the same row, afterwards.

Called by the API, the console, the worker (`advance_recovery`) and the controller's database thread (`waiting_resets`, `mark_reset`, `begun_by_controller`).
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.models import Broker, Change, Cluster, Partition, ReplicaFinding, ReplicaRecovery
from controlplane.models.change import Outcome
from controlplane.models.job import FindingKind, RecoveryState
from controlplane.services.common import Refused, record, record_refusal

WORKING = (RecoveryState.ASKED, RecoveryState.RESET, RecoveryState.COPYING)

BY_ITSELF = "worker"
CONTROLLER = "controller"
STARTED_TOO_LATE = (
    "The copy starts above its leader's log and could not join the ISR; the controller has it fetched anew."
)
NAMED_BY_CONTENT = 5
"""Version of the ids of resets that the controller decides by itself; those that somebody asked for are drawn (4)."""
MENDED_AT_ONCE_MAX = 2
"""Copies fetched anew at a time without anybody asking: a disk that goes bad has many, and their leaders have others to serve."""
REFUSED_AGAIN_SECONDS = 600
"""Seconds before a refused one is asked for again."""
UNTAKEN_SECONDS = 60
"""Seconds after which a recovery that no controller took says so (it stays asked)."""


def recover_replica(topic: str, partition: int, broker_id: int, *, who: str, why: str = "") -> ReplicaRecovery:
    """Ask for the replica of `topic`-`partition` on `broker_id` to be rebuilt from the leader. Raises Refused when no other replica
    is in sync and alive, when the broker is not alive, or when it is asked already."""
    name = f"{topic}-{partition}@{broker_id}"[:255]
    try:
        with transaction.atomic():
            row = Partition.objects.filter(topic__name=topic, index=partition).select_related("topic").first()
            if row is None:
                raise Refused(f"There is no partition {topic}-{partition}.", "partition")
            if broker_id not in row.replicas:
                raise Refused(
                    f"Broker {broker_id} holds no replica of it; its replicas are {row.replicas}.", "broker_id"
                )
            alive = set(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))
            if broker_id not in alive:
                raise Refused(
                    f"Broker {broker_id} is not alive; start it first, it has to do the copying.", "broker_id"
                )
            others = [b for b in row.isr if b != broker_id and b in alive]
            if not others:
                raise Refused(
                    f"No other replica of {topic}-{partition} is alive and in sync; throwing this copy away would lose records. "
                    "Wait for another replica to catch up."
                )
            if row.adding or row.removing:
                raise Refused(f"{topic}-{partition} is being moved; wait for the move's end or cancel it.")
            before = {"replicas": row.replicas, "isr": row.isr, "leader": row.leader}
            try:
                with transaction.atomic():
                    recovery = ReplicaRecovery.objects.create(
                        topic_id=row.topic_id, topic_name=topic, partition=partition, broker_id=broker_id,
                        before=before, who=who, why=why, bytes_total=row.size_bytes,
                    )  # fmt: skip
            except IntegrityError:
                raise Refused("This replica is being recovered already.") from None
            ReplicaFinding.objects.filter(
                topic_id=row.topic_id, partition=partition, broker_id=broker_id, ended_at__isnull=True
            ).update(recovery=recovery)
            record(
                who, "replica.recover", "recovery", name,
                why=why, before=before, object_id=f"recovery-{recovery.pk}",
            )  # fmt: skip
            return recovery
    except Refused as refused:
        record_refusal(who, "replica.recover", "recovery", name, refused, why=why)
        raise


def mend_findings() -> list[int]:
    """Ask for the recovery of copies that brokers tell are damaged or offline, where that is configured; the ids asked for. What is refused stays
    in the list of findings and is tried again at the next sweep: another replica may be in sync by then."""
    if not settings.RECOVERY_BY_ITSELF:
        return []
    room = MENDED_AT_ONCE_MAX - ReplicaRecovery.objects.filter(state__in=WORKING, who=BY_ITSELF).count()
    asked = []
    for found in ReplicaFinding.objects.filter(
        ended_at__isnull=True, recovery__isnull=True, kind__in=(FindingKind.CORRUPT, FindingKind.DISK)
    ).order_by("id")[: max(0, room)]:
        refusals = Change.objects.filter(verb="replica.recover", who=BY_ITSELF, outcome=Outcome.REFUSED)
        name = f"{found.topic_name}-{found.partition}@{found.broker_id}"[:255]
        if refusals.filter(object_name=name, at__gt=timezone.now() - timedelta(seconds=REFUSED_AGAIN_SECONDS)).exists():
            continue
        try:
            why = f"{found.get_kind_display()}: {found.detail}"
            asked.append(recover_replica(found.topic_name, found.partition, found.broker_id, who=BY_ITSELF, why=why).pk)
        except Refused:
            continue  # its row says why
    return asked


def working_recoveries() -> list[int]:
    """Ids of recoveries that want a look."""
    return list(ReplicaRecovery.objects.filter(state__in=WORKING).order_by("id").values_list("id", flat=True))


def waiting_resets() -> list[ReplicaRecovery]:
    """What the controller should append as ReplicaReset: read by its database thread."""
    return list(ReplicaRecovery.objects.filter(state=RecoveryState.ASKED).order_by("id"))


def mark_reset(reset_id: uuid.UUID, seq: int, controller_epoch: int) -> bool:
    """Note that entry `seq` of the metadata log told the broker to throw its copy away. Idempotent."""
    return bool(
        ReplicaRecovery.objects.filter(
            reset_id=reset_id, state=RecoveryState.ASKED, controller_epoch__lte=controller_epoch
        ).update(
            state=RecoveryState.RESET,
            reset_seq=seq,
            controller_epoch=controller_epoch,
            note="",
            version=F("version") + 1,
        )
    )


def begun_by_controller(
    reset_id: uuid.UUID,
    topic_id: uuid.UUID,
    topic: str,
    partition: int,
    broker_id: int,
    seq: int,
    controller_epoch: int,
) -> bool:
    """Entry `seq` of the metadata log has a reset that nobody asked for: it stands among the recoveries and the changes as the controller's. Idempotent.
    Where somebody has asked for the same copy and waits, that row stays theirs and the change alone says what was done. False: it is known, or was
    asked for (and its row is another database's)."""
    if reset_id.version != NAMED_BY_CONTENT or ReplicaRecovery.objects.filter(reset_id=reset_id).exists():
        return False
    if Change.objects.filter(object_id=f"reset-{reset_id}").exists():
        return False
    row = Partition.objects.filter(topic_id=topic_id, index=partition).first()
    before = {} if row is None else {"replicas": row.replicas, "isr": row.isr, "leader": row.leader}
    with transaction.atomic():
        object_id, outcome = f"reset-{reset_id}", Outcome.CONFIRMED
        try:
            with transaction.atomic():
                made = ReplicaRecovery.objects.create(
                    reset_id=reset_id, topic_id=topic_id, topic_name=topic, partition=partition, broker_id=broker_id,
                    state=RecoveryState.RESET, reset_seq=seq, controller_epoch=controller_epoch, before=before,
                    bytes_total=row.size_bytes if row is not None else None, who=CONTROLLER, why=STARTED_TOO_LATE,
                )  # fmt: skip
            object_id, outcome = f"recovery-{made.pk}", Outcome.PENDING
        except IntegrityError:
            pass  # somebody asked for it, too: one row per copy at a time
        record(
            CONTROLLER, "replica.recover", "recovery", f"{topic}-{partition}@{broker_id}"[:255],
            why=STARTED_TOO_LATE, before=before, object_id=object_id, outcome=outcome,
        )  # fmt: skip
    return True


def mark_reset_refused(reset_id: uuid.UUID, reason: str) -> bool:
    """The controller cannot reset this replica (now); the reason is shown and it stays asked."""
    return bool(
        ReplicaRecovery.objects.filter(reset_id=reset_id, state=RecoveryState.ASKED)
        .exclude(note=reason)
        .update(note=reason)
    )


def advance_recovery(recovery_id: int) -> str | None:
    """One look. reset -> copying when the mirror has passed the reset; copying -> done when the replica is in sync again."""
    with transaction.atomic():
        row = ReplicaRecovery.objects.filter(pk=recovery_id, state__in=WORKING).first()
        if row is None:
            return None
        if row.state == RecoveryState.ASKED:
            if not row.note and timezone.now() - row.created_at > timedelta(seconds=UNTAKEN_SECONDS):
                _change(row, state=row.state, note="No controller has taken it yet; see the controllers' state.")
            return str(row.state)
        partition = (
            Partition.objects.filter(topic_id=row.topic_id, index=row.partition)
            .prefetch_related("replica_rows")
            .first()
        )
        if partition is None or row.broker_id not in partition.replicas:
            return _end(row, RecoveryState.FAILED, "The replica is no longer assigned to this broker.", Outcome.UNKNOWN)
        mirrored = Cluster.objects.filter(pk=1).values_list("metadata_seq", flat=True).first() or 0
        if row.reset_seq is None or mirrored < row.reset_seq:
            return str(row.state)
        sizes = {r.broker_id: r.size_bytes for r in partition.replica_rows.all()}
        if row.broker_id in partition.isr:
            return _end(row, RecoveryState.DONE, "", Outcome.CONFIRMED)
        _change(
            row,
            state=RecoveryState.COPYING,
            bytes_total=sizes.get(partition.leader) if partition.leader is not None else row.bytes_total,
            bytes_done=sizes.get(row.broker_id),
        )
        return RecoveryState.COPYING


def _change(row: ReplicaRecovery, **values: object) -> bool:
    if all(getattr(row, k) == v for k, v in values.items()):
        return False
    return bool(
        ReplicaRecovery.objects.filter(pk=row.pk, state=row.state, version=row.version).update(
            version=F("version") + 1, **values
        )
    )


def _end(row: ReplicaRecovery, state: RecoveryState, note: str, outcome: Outcome) -> str | None:
    if not _change(row, state=state, note=note, finished_at=timezone.now()):
        return None
    Change.objects.filter(object_id=f"recovery-{row.pk}", outcome=Outcome.PENDING).update(
        outcome=outcome, detail=note, finished_at=timezone.now()
    )
    return state
