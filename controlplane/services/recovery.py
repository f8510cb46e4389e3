"""Replica recovery: discard one replica and fetch it again. Invariant: never the last in-sync replica. The row is the queue: the controller appends
the reset, and the monitor sees the replica return to the ISR. A reset decided by the controller (decision 037) leaves the same row afterwards."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Broker, Change, Cluster, ObservedPartition, ReplicaDamageReport, ReplicaRecovery
from controlplane.models.change import Outcome
from controlplane.models.job import DamageKind, RecoveryState
from controlplane.services.common import Rejected, audited, finish_changes, record
from weir_common.phrases import phrase_to_json, sentence

WORKING = (RecoveryState.REQUESTED, RecoveryState.RESET, RecoveryState.COPYING)

WORKER = "worker"
CONTROLLER = "controller"
STARTED_TOO_LATE = "The replica starts above its leader's log start and could not join the ISR; the controller has it replicated again."
CONTENT_UUID_VERSION = 5
"""UUID version of resets that the controller decides automatically. Requested resets have random ids (version 4)."""
AUTO_REPAIRS_MAX = 2
"""Maximum number of automatic recoveries in progress at a time: a failing disk has many damaged replicas, and their leaders also serve clients."""
REJECTED_AGAIN_SECONDS = 600
"""Seconds before a rejected recovery is requested again."""
UNAPPLIED_SECONDS = 60
"""Seconds after which a recovery that no controller has taken is marked as such. It stays requested."""


@audited(AuditOperation.REPLICA_RECOVER, "{topic}-{partition}@{broker_id}", kind="recovery")
def recover_replica(topic: str, partition: int, broker_id: int, *, actor: str, comment: str = "") -> ReplicaRecovery:
    """Request the replica of `topic`-`partition` on `broker_id` to be rebuilt from the leader. Raises Rejected when no other replica
    is in sync and alive, when the broker is not alive, or when a recovery is already requested."""
    name = f"{topic}-{partition}@{broker_id}"[:255]
    with transaction.atomic():
        row = _recoverable_partition(topic, partition, broker_id)
        before = {"replicas": row.replicas, "isr": row.isr, "leader": row.leader}
        try:
            with transaction.atomic():
                recovery = ReplicaRecovery.objects.create(
                    topic_id=row.topic_id,
                    topic_name=topic,
                    partition=partition,
                    broker_id=broker_id,
                    before=before,
                    actor=actor,
                    comment=comment,
                    bytes_total=row.size_bytes,
                )
        except IntegrityError:
            raise Rejected("This replica is already being recovered.") from None
        ReplicaDamageReport.objects.filter(
            topic_id=row.topic_id, partition=partition, broker_id=broker_id, ended_at__isnull=True
        ).update(recovery=recovery)
        record(
            actor,
            AuditOperation.REPLICA_RECOVER,
            "recovery",
            name,
            comment=comment,
            before=before,
            object_id=f"recovery-{recovery.pk}",
        )
        return recovery


def _recoverable_partition(topic: str, partition: int, broker_id: int) -> ObservedPartition:
    """The partition, if its replica on this broker can be rebuilt from another one. Raises Rejected."""
    row = ObservedPartition.objects.filter(topic__name=topic, index=partition).select_related("topic").first()
    if row is None:
        raise Rejected(
            sentence("Partition {topic}-{partition} does not exist.", topic=topic, partition=partition), "partition"
        )
    if broker_id not in row.replicas:
        raise Rejected(
            sentence(
                "Broker {broker_id} has no replica of the partition; its replicas are {replicas}.",
                broker_id=broker_id,
                replicas=row.replicas,
            ),
            "broker_id",
        )
    alive = set(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))
    if broker_id not in alive:
        raise Rejected(sentence("Broker {broker_id} is not alive; start it first.", broker_id=broker_id), "broker_id")
    others = [b for b in row.isr if b != broker_id and b in alive]
    if not others:
        raise Rejected(
            sentence(
                "No other replica of {topic}-{partition} is alive and in sync; deleting this replica would lose records. Wait until another replica has caught up.",
                topic=topic,
                partition=partition,
            )
        )
    if row.adding or row.removing:
        raise Rejected(
            sentence(
                "{topic}-{partition} is being moved; wait until the move ends, or cancel it.",
                topic=topic,
                partition=partition,
            )
        )
    return row


def repair_damaged_replicas() -> list[int]:
    """Request the recovery of replicas that brokers report as damaged or offline, if this is configured. Returns the requested ids. A rejected one
    stays in the list of damage reports and is tried again at the next run: another replica may be in sync by then."""
    if not settings.WEIR.auto_recovery:
        return []
    room = AUTO_REPAIRS_MAX - ReplicaRecovery.objects.filter(state__in=WORKING, actor=WORKER).count()
    requested_ids = []
    for found in ReplicaDamageReport.objects.filter(
        ended_at__isnull=True, recovery__isnull=True, kind__in=(DamageKind.CORRUPT, DamageKind.DISK)
    ).order_by("id")[: max(0, room)]:
        rejections = Change.objects.filter(verb=AuditOperation.REPLICA_RECOVER, actor=WORKER, outcome=Outcome.REJECTED)
        name = f"{found.topic_name}-{found.partition}@{found.broker_id}"[:255]
        if rejections.filter(
            object_name=name, at__gt=timezone.now() - timedelta(seconds=REJECTED_AGAIN_SECONDS)
        ).exists():
            continue
        try:
            comment = f"{found.get_kind_display()}: {found.detail}"
            requested_ids.append(
                recover_replica(found.topic_name, found.partition, found.broker_id, actor=WORKER, comment=comment).pk
            )
        except Rejected:
            continue  # the rejection is stored in its row
    return requested_ids


def working_recoveries() -> list[int]:
    """Ids of recoveries that the worker advances."""
    return list(ReplicaRecovery.objects.filter(state__in=WORKING).order_by("id").values_list("id", flat=True))


def waiting_resets() -> list[ReplicaRecovery]:
    """Resets that the controller should append as ReplicaReset, read by its database thread."""
    return list(ReplicaRecovery.objects.filter(state=RecoveryState.REQUESTED).order_by("id"))


def mark_reset(reset_id: uuid.UUID, seq: int, controller_epoch: int) -> bool:
    """Record that entry `seq` of the metadata log is the reset of this replica. Idempotent."""
    return bool(
        ReplicaRecovery.objects.filter(
            reset_id=reset_id, state=RecoveryState.REQUESTED, controller_epoch__lte=controller_epoch
        ).update(
            state=RecoveryState.RESET,
            reset_seq=seq,
            controller_epoch=controller_epoch,
            note="",
            note_phrase={},
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
    """Record a reset, entry `seq` of the metadata log, that the controller decided itself, in the recoveries and in the changes. Idempotent. If a
    person's recovery of the same replica is waiting, its row stays, and only the change row records the reset. Returns False when the reset is
    already recorded, or was requested by a person (its row is in another database)."""
    if reset_id.version != CONTENT_UUID_VERSION or ReplicaRecovery.objects.filter(reset_id=reset_id).exists():
        return False
    if Change.objects.filter(object_id=f"reset-{reset_id}").exists():
        return False
    row = ObservedPartition.objects.filter(topic_id=topic_id, index=partition).first()
    before = {} if row is None else {"replicas": row.replicas, "isr": row.isr, "leader": row.leader}
    with transaction.atomic():
        object_id, outcome = f"reset-{reset_id}", Outcome.CONFIRMED
        try:
            with transaction.atomic():
                made = ReplicaRecovery.objects.create(
                    reset_id=reset_id,
                    topic_id=topic_id,
                    topic_name=topic,
                    partition=partition,
                    broker_id=broker_id,
                    state=RecoveryState.RESET,
                    reset_seq=seq,
                    controller_epoch=controller_epoch,
                    before=before,
                    bytes_total=row.size_bytes if row is not None else None,
                    actor=CONTROLLER,
                    comment=STARTED_TOO_LATE,
                )
            object_id, outcome = f"recovery-{made.pk}", Outcome.PENDING
        except IntegrityError:
            pass  # a recovery of the same replica is already requested, and there is only one row per replica at a time
        record(
            CONTROLLER,
            AuditOperation.REPLICA_RECOVER,
            "recovery",
            f"{topic}-{partition}@{broker_id}"[:255],
            comment=STARTED_TOO_LATE,
            before=before,
            object_id=object_id,
            outcome=outcome,
        )
    return True


def mark_reset_rejected(reset_id: uuid.UUID, reason: str) -> bool:
    """Store the reason why the controller cannot reset this replica now. The recovery stays requested."""
    return bool(
        ReplicaRecovery.objects.filter(reset_id=reset_id, state=RecoveryState.REQUESTED)
        .exclude(note=reason)
        .update(note=reason, note_phrase=phrase_to_json(reason))
    )


def advance_recovery(recovery_id: int) -> str | None:
    """One step. reset -> copying when the mirrored metadata has passed the reset; copying -> done when the replica is in sync again."""
    with transaction.atomic():
        row = ReplicaRecovery.objects.filter(pk=recovery_id, state__in=WORKING).first()
        if row is None:
            return None
        if row.state == RecoveryState.REQUESTED:
            if not row.note and timezone.now() - row.created_at > timedelta(seconds=UNAPPLIED_SECONDS):
                _change(
                    row,
                    state=row.state,
                    note=sentence("No controller has processed the request yet. Check the controllers."),
                )
            return str(row.state)
        partition = (
            ObservedPartition.objects.filter(topic_id=row.topic_id, index=row.partition)
            .prefetch_related("replica_rows")
            .first()
        )
        if partition is None or row.broker_id not in partition.replicas:
            text = sentence("The replica is no longer assigned to this broker.")
            return _end(row, RecoveryState.FAILED, text, Outcome.UNKNOWN)
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
    if isinstance(note := values.get("note"), str):
        values["note_phrase"] = phrase_to_json(note)
    return bool(
        ReplicaRecovery.objects.filter(pk=row.pk, state=row.state, version=row.version).update(
            version=F("version") + 1, **values
        )
    )


def _end(row: ReplicaRecovery, state: RecoveryState, note: str, outcome: Outcome) -> str | None:
    if not _change(row, state=state, note=note, finished_at=timezone.now()):
        return None
    finish_changes(f"recovery-{row.pk}", None, outcome, note)
    return state
