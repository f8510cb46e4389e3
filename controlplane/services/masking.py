"""Masking rules: create, delete, and the rules that apply to a user.

Invariant: operators and administrators see raw records; every other user has all rules. Only administrators change rules, because a rule decides
what others may see.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction

from controlplane.clients.schema_registry import registry
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.formats import Format
from controlplane.domain.masking import MaskRule, MaskTarget, RecordRenderer, check_rule
from controlplane.models import MaskingRule
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, audited, record, record_rejection
from weir_common.phrases import sentence

NEEDS_ADMINISTRATOR = "Masking rules are changed by administrators (superusers)."
RULES_MAX = 1_000
"""Maximum number of rules of all topics. Each record of a viewer is compared with those of its topic."""

Reader = AbstractBaseUser | AnonymousUser


def sees_raw(user: Reader) -> bool:
    """Return whether masking rules do not apply to this user."""
    return bool(user.is_authenticated and (getattr(user, "is_staff", False) or _is_administrator(user)))


def rules_for(user: Reader, topic: str) -> list[MaskRule]:
    """The rules that apply to records of this topic when this user reads them."""
    return [] if sees_raw(user) else [rule for rule in _rules() if rule.applies_to(topic)]


def renderer_for(
    user: Reader, topic: str, *, key_format: Format = Format.AUTO, value_format: Format = Format.AUTO
) -> RecordRenderer:
    """The renderer of this topic's records for this user, with the configured schema registry."""
    rules = rules_for(user, topic)
    return RecordRenderer(topic, rules, key_format=key_format, value_format=value_format, schemas=registry())


def key_is_masked(topic: str) -> bool:
    """Return whether a rule applies to keys of this topic, for some user."""
    return any(rule.target is MaskTarget.KEY and rule.applies_to(topic) for rule in _rules())


def has_rules(topic: str) -> bool:
    """Return whether a rule applies to any part of this topic's records, for some user."""
    return any(rule.applies_to(topic) for rule in _rules())


def check_administrator(user: Reader, verb: AuditOperation, name: str) -> None:
    """Raises PermissionDenied after the rejection is written to the audit log."""
    if not _is_administrator(user):
        record_rejection(user.get_username(), verb, "masking", name[:255], Rejected(NEEDS_ADMINISTRATOR))
        raise PermissionDenied(NEEDS_ADMINISTRATOR)


@audited(AuditOperation.MASKING_CREATE, "{topics}", after=lambda a: {f: a[f] for f in ("topics", "target", "field")})
def create_rule(*, topics: str, target: str, field: str, actor: str, comment: str = "") -> MaskingRule:
    """Store a rule. It applies to the next record that is shown. Raises Rejected."""
    if target not in tuple(MaskTarget):
        raise Rejected(
            sentence(
                "{target} is not a part of a record; use {allowed}.", target=repr(target), allowed=", ".join(MaskTarget)
            ),
            "target",
        )
    values = {"topics": topics.strip(), "target": target, "field": field.strip()}
    check_rule(MaskRule(values["topics"], MaskTarget(target), values["field"]))
    if MaskingRule.objects.count() >= RULES_MAX:
        raise Rejected(
            sentence("There are {max} rules already. Delete rules, or use * in a topic pattern.", max=RULES_MAX)
        )
    try:
        with transaction.atomic():
            row = MaskingRule.objects.create(created_by=actor, **values)
            record(
                actor,
                AuditOperation.MASKING_CREATE,
                "masking",
                values["topics"],
                comment=comment,
                after=values,
                object_id=f"masking-{row.pk}",
                outcome=Outcome.CONFIRMED,
            )
            return row
    except IntegrityError:
        raise Rejected("This rule exists already.") from None


@audited(AuditOperation.MASKING_DELETE, "{rule_id}")
def delete_rule(rule_id: int, *, actor: str, comment: str = "") -> None:
    """Delete a rule: after that viewers see its field. Raises Rejected for a rule that does not exist (any more)."""
    with transaction.atomic():
        row = MaskingRule.objects.filter(pk=rule_id).first()
        if row is None or not MaskingRule.objects.filter(pk=rule_id).delete()[0]:
            raise Rejected(
                sentence("Masking rule {rule_id} does not exist; it may have been deleted already.", rule_id=rule_id)
            )
        before = {"topics": row.topics, "target": row.target, "field": row.field}
        record(
            actor,
            AuditOperation.MASKING_DELETE,
            "masking",
            row.topics,
            comment=comment,
            before=before,
            object_id=f"masking-{rule_id}",
            outcome=Outcome.CONFIRMED,
        )


def _rules() -> list[MaskRule]:
    return [
        MaskRule(topics, MaskTarget(target), field)
        for topics, target, field in MaskingRule.objects.values_list("topics", "target", "field")
    ]


def _is_administrator(user: Reader) -> bool:
    return isinstance(user, PermissionsMixin) and user.is_superuser
