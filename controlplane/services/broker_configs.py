"""Dynamic broker settings: set and remove, for one broker or cluster-wide. `access` sends them to the brokers.

Invariant: a setting that a broker would reject is rejected here, because both use the same rules (`brokerd.config.dynamic`). Cordon, demotion and the
throttles of moves have separate operations and cannot be changed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import transaction

from brokerd.cluster.configs import ALL_BROKERS, FOLLOWER_RATE, LEADER_RATE
from brokerd.cluster.metadata import BROKER
from brokerd.cluster.requests import AlterConfigOp, OpType
from brokerd.config import dynamic
from brokerd.config.broker import BY_NAME
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.broker_config import OTHER_ACTIONS
from controlplane.models import AccessEntry, Broker
from controlplane.services import access
from controlplane.services.common import Rejected, audited
from weir_common.phrases import sentence

CLUSTER_WIDE = ALL_BROKERS


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`now`, `new`: the dynamic value of the scope before and after the change; None: not set."""

    name: str
    now: str | None
    new: str | None


def preview_change(broker_id: int, configs: Mapping[str, str | None]) -> list[ConfigChange]:
    """The effect of this change. Raises Rejected. `broker_id` CLUSTER_WIDE: all brokers; a value None removes the dynamic value."""
    before, _ = _current_settings(broker_id)
    if not configs:
        raise Rejected("Name at least one setting.", "configs")
    operations = _operations(configs)
    for op in operations:
        if op.name in OTHER_ACTIONS:
            raise Rejected(
                sentence("{name} has its own action. {advice}", name=op.name, advice=OTHER_ACTIONS[op.name]),
                f"configs.{op.name}",
            )
        if op.op is OpType.DELETE and op.name not in before:
            raise Rejected(sentence("{name} has no dynamic value in this scope.", name=op.name), f"configs.{op.name}")
        if op.op is OpType.SET and before.get(op.name) == op.value:
            raise Rejected(sentence("{name} has this dynamic value already.", name=op.name), f"configs.{op.name}")
        _, problem = dynamic.apply_operations(BY_NAME, before, [op], broker_id)
        if problem is not None:
            raise Rejected(sentence("{problem}.", problem=problem), f"configs.{op.name}")
    _, problem = dynamic.apply_operations(BY_NAME, before, operations, broker_id)
    if problem is not None:
        raise Rejected(sentence("{problem}.", problem=problem), "configs")
    return [ConfigChange(op.name, before.get(op.name), op.value) for op in operations]


def check_reviewed(changes: Iterable[ConfigChange], reviewed: Mapping[str, str | None] | None) -> None:
    """Raises Rejected if a value is not the one that the operator saw. `reviewed` None: the change was not reviewed."""
    for change in changes:
        if reviewed is not None and reviewed.get(change.name) != change.now:
            raise Rejected(
                sentence(
                    "{name} was changed to {now} after the review. Review it again.",
                    name=change.name,
                    now=repr(change.now),
                ),
                "configs",
            )


def _object_name(broker_id: int) -> str:
    return "all brokers" if broker_id == CLUSTER_WIDE else str(broker_id)


@audited(
    AuditOperation.BROKER_CONFIGS,
    lambda given: _object_name(given["broker_id"]),
    after=lambda given: dict(given["configs"]),
)
def alter_configs(
    broker_id: int,
    configs: Mapping[str, str | None],
    *,
    actor: str,
    comment: str = "",
    reviewed: Mapping[str, str | None] | None = None,
) -> None:
    """Set and remove dynamic settings. `reviewed`: the dynamic values that the operator saw; Rejected if one has changed since."""
    with transaction.atomic():
        access.lock(BROKER, str(broker_id))
        changes = preview_change(broker_id, configs)
        check_reviewed(changes, reviewed)
        before, generation = _current_settings(broker_id)
        access.put_settings(
            str(broker_id),
            _operations(configs),
            before,
            actor=actor,
            above=generation,
            comment=comment,
            verb=AuditOperation.BROKER_CONFIGS,
        )


def _operations(configs: Mapping[str, str | None]) -> list[AlterConfigOp]:
    return [AlterConfigOp(n, OpType.DELETE if v is None else OpType.SET, v) for n, v in configs.items()]


def _current_settings(broker_id: int) -> tuple[dict[str, str], int]:
    """(dynamic settings of this scope as desired, without throttles of moves; their generation in the metadata log). Raises Rejected."""
    logged: Mapping[str, str] = {}
    generation = 0
    if broker_id == CLUSTER_WIDE:
        access.require_imported()
    else:
        broker = Broker.objects.filter(pk=broker_id).first()
        if broker is None:
            raise Rejected(sentence("Broker {broker_id} does not exist.", broker_id=broker_id), "broker_id")
        logged, generation = broker.configs, broker.config_generation
    row = AccessEntry.objects.filter(kind=BROKER, key=str(broker_id)).first()
    if row is not None and row.generation >= generation:
        return dict(row.value or {}), generation
    return {n: v for n, v in logged.items() if n not in (LEADER_RATE, FOLLOWER_RATE)}, generation
