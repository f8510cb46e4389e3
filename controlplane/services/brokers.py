"""Operations on brokers: cordon and uncordon, demote and restore leadership, restore both, drain, and end a drain.

Invariants: cordon and demotion are settings of the broker in the metadata log, and the controller obeys them. Each operation writes a change row with
the previous value. A drain moves replicas by an ordinary move. Does not contain the placement of replicas (`controlplane.domain.planner`) or the
steps of a rolling restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.db import transaction

from brokerd.cluster.cordons import ALL_DIRECTORIES, CORDONED, LEADERSHIP
from brokerd.cluster.requests import AlterConfigOp, OpType
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.scope import DrainScope
from controlplane.models import Broker, Move
from controlplane.selectors.brokers import drained_by
from controlplane.services import access, moves
from controlplane.services.common import Rejected, record_rejection, recorded_rejections
from weir_common.phrases import sentence


def cordon(broker_id: int, *, actor: str, comment: str = "") -> Broker:
    """Cordon the broker: it gets no new replicas and continues to serve its replicas. Raises Rejected when no other broker could take a replica."""
    row = _row(broker_id, AuditOperation.BROKER_CORDON, actor, comment)
    others = [b for b in Broker.objects.exclude(pk=broker_id) if b.alive and b.configs.get(CORDONED) != ALL_DIRECTORIES]
    if not others:
        rejected = Rejected(
            sentence(
                "Broker {broker_id} is the last live broker that is not cordoned: new topics could not be placed.",
                broker_id=broker_id,
            )
        )
        record_rejection(actor, AuditOperation.BROKER_CORDON, "broker", str(broker_id), rejected, comment=comment)
        raise rejected
    return _set_field(row, CORDONED, ALL_DIRECTORIES, AuditOperation.BROKER_CORDON, actor, comment)


def uncordon(broker_id: int, *, actor: str, comment: str = "") -> Broker:
    return _set_field(
        _row(broker_id, AuditOperation.BROKER_UNCORDON, actor, comment),
        CORDONED,
        None,
        AuditOperation.BROKER_UNCORDON,
        actor,
        comment,
    )


def demote(broker_id: int, *, actor: str, comment: str = "") -> Broker:
    """Demote the broker: until `restore_leadership` it leads only partitions that no other in-sync replica can lead."""
    return _set_field(
        _row(broker_id, AuditOperation.BROKER_DEMOTE, actor, comment),
        LEADERSHIP,
        "false",
        AuditOperation.BROKER_DEMOTE,
        actor,
        comment,
    )


def restore_leadership(broker_id: int, *, actor: str, comment: str = "") -> Broker:
    """End the demotion. The controller returns leadership to preferred leaders within seconds."""
    return _set_field(
        _row(broker_id, AuditOperation.BROKER_RESTORE_LEADERSHIP, actor, comment),
        LEADERSHIP,
        None,
        AuditOperation.BROKER_RESTORE_LEADERSHIP,
        actor,
        comment,
    )


def restore(broker_id: int, *, actor: str, comment: str = "") -> Broker:
    """Uncordon the broker and restore its leadership in one operation, also while the cordon or demotion has not reached the metadata log yet."""
    row = _row(broker_id, AuditOperation.BROKER_RESTORE, actor, comment)
    return _change(row, {CORDONED: None, LEADERSHIP: None}, AuditOperation.BROKER_RESTORE, actor, comment)


def end_drain(end: Callable[..., Move], move_id: int, *, actor: str, comment: str = "", uncordon: bool = False) -> Move:
    """Cancel or roll back (`end`) a move. `uncordon` is for drains only: it restores the drained brokers in the same transaction, because a move that
    returns the replicas does not end the cordon and the demotion. Nothing is changed when it raises Rejected."""
    if not uncordon:
        return end(move_id, actor=actor, comment=comment)
    with (
        recorded_rejections(actor, AuditOperation.MOVE_END_DRAIN, "move", str(move_id), comment=comment),
        transaction.atomic(),
    ):
        move = end(move_id, actor=actor, comment=comment)
        if not isinstance(move.scope, DrainScope):
            raise Rejected(
                sentence("Move {move_id} is not a drain: it has no broker to uncordon.", move_id=move_id), "uncordon"
            )
        for broker_id in drained_by(move.scope):
            restore(broker_id, actor=actor, comment=comment)
        return move


def drain(
    broker_id: int,
    *,
    actor: str,
    comment: str = "",
    throttle_bytes_per_s: int | None = None,
    parts_in_flight_max: int = 8,
) -> Move | None:
    """Cordon the broker, demote it, and start a move of all its replicas to other brokers. Returns None when the broker has no replicas. Raises
    Rejected, before anything is changed, when a replica has no possible destination."""
    _row(broker_id, AuditOperation.BROKER_DRAIN, actor, comment)
    with (
        recorded_rejections(actor, AuditOperation.BROKER_DRAIN, "broker", str(broker_id), comment=comment),
        transaction.atomic(),
    ):
        cordon(broker_id, actor=actor, comment=comment)
        demote(broker_id, actor=actor, comment=comment)
        if not Broker.objects.get(pk=broker_id).replicas:
            return None
        caps = {"throttle_bytes_per_s": throttle_bytes_per_s, "parts_in_flight_max": parts_in_flight_max}
        move = moves.plan_move(DrainScope(broker=broker_id), actor=actor, comment=comment, **caps)  # type: ignore[arg-type]
        return moves.start_move(move.pk, actor=actor, comment=comment)


def _row(broker_id: int, verb: AuditOperation, actor: str, comment: str) -> Broker:
    row = Broker.objects.filter(pk=broker_id).first()
    if row is None:
        rejected = Rejected(sentence("Broker {broker_id} does not exist.", broker_id=broker_id), "broker_id")
        record_rejection(actor, verb, "broker", str(broker_id), rejected, comment=comment)
        raise rejected
    return row


def _set_field(row: Broker, name: str, value: str | None, verb: AuditOperation, actor: str, comment: str) -> Broker:
    return _change(row, {name: value}, verb, actor, comment)


def _change(row: Broker, values: Mapping[str, str | None], verb: AuditOperation, actor: str, comment: str) -> Broker:
    acts = [AlterConfigOp(n, OpType.DELETE if v is None else OpType.SET, v) for n, v in values.items()]
    with transaction.atomic():
        access.put_settings(
            str(row.broker_id), acts, row.configs, actor=actor, above=row.config_generation, comment=comment, verb=verb
        )
    return row
