"""Client quotas: set and remove the limits of a user, a client id, an address, or a default. `access` sends them to the brokers.

Invariant: limits that a request does not name do not change. An entity without limits has no value, as after AlterClientQuotas of a client.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import IntegrityError, transaction

from brokerd.cluster.quota_entities import entity_key, entity_problem, value_problem
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.quota import Entity, entity_text
from controlplane.models import AccessEntry
from controlplane.services import access
from controlplane.services.common import Rejected, audited
from weir_common.phrases import sentence


@audited(
    AuditOperation.QUOTA_SET, lambda given: entity_text(given["entity"]), after=lambda given: dict(given["limits"])
)
def set_quota(
    entity: Entity,
    limits: Mapping[str, float | None],
    *,
    actor: str,
    comment: str = "",
    reviewed: Mapping[str, float] | None = None,
) -> AccessEntry:
    """Set these limits of an entity, per broker: bytes/s, per cent of one event loop, partitions/s, connections/s. None removes a limit.
    `reviewed`: the limits that the operator saw; Rejected if they have changed since."""
    if (problem := entity_problem(entity)) is not None:
        raise Rejected(sentence("Invalid quota entity: {problem}.", problem=problem), "entity")
    for quota, value in limits.items():
        if (problem := value_problem(entity, quota, value)) is not None:
            raise Rejected(sentence("{problem}.", problem=problem), f"limits.{quota}")
    access.require_imported()
    key = entity_key(entity)
    try:
        with transaction.atomic():
            row = AccessEntry.objects.select_for_update().filter(kind=AccessRecordKind.QUOTA, key=key).first()
            before = (row.value or {}) if row is not None else {}
            if reviewed is not None and before != reviewed:
                raise Rejected("The limits were changed after this form was opened. Open it again.", "limits")
            desired = {q: v for q, v in {**before, **limits}.items() if v is not None}
            if desired == before:
                raise Rejected(
                    sentence("The entity has these limits already.")
                    if desired
                    else sentence("Give at least one limit."),
                    "limits",
                )
            verb = AuditOperation.QUOTA_SET if desired else AuditOperation.QUOTA_DELETE
            return access.put(AccessRecordKind.QUOTA, key, desired or None, actor=actor, comment=comment, verb=verb)
    except IntegrityError:
        raise Rejected("The quota was created by another operator at the same time.", "entity") from None


@audited(AuditOperation.QUOTA_DELETE, lambda given: str(given["quota_id"]))
def delete_quota(quota_id: int, *, actor: str, comment: str = "") -> None:
    """Remove all limits of an entity. Less specific quotas apply afterwards. Raises Rejected."""
    with transaction.atomic():
        row = AccessEntry.objects.filter(pk=quota_id, kind=AccessRecordKind.QUOTA, value__isnull=False).first()
        if row is None:
            raise Rejected(
                sentence("There is no quota {quota_id}; it may have been deleted already.", quota_id=quota_id)
            )
        access.put(
            AccessRecordKind.QUOTA, row.key, None, actor=actor, comment=comment, verb=AuditOperation.QUOTA_DELETE
        )
