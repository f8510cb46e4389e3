"""ACLs, credentials, quotas and broker settings: rows with generations, which the controller writes to the metadata log.

Invariants: each operation writes a change row, which contains no keys or passwords. A deletion is a row without a value.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from brokerd.cluster import configs
from brokerd.cluster.configs import FOLLOWER_RATE, LEADER_RATE
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BROKER
from brokerd.cluster.requests import AlterConfigOp, OpType
from brokerd.security import scram
from controlplane.domain.access import ACL_FIELDS as ACL_FIELDS
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.access import acl_key as acl_key
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.errors import not_one_of
from controlplane.models import AccessEntry, Acl, Cluster
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, record
from weir_common.phrases import sentence

WAITING_MAX = 500
"""Maximum number of rows passed to the controller at a time. The next rows follow when these are applied."""
ALL_BROKERS = str(configs.ALL_BROKERS)
RATES = (LEADER_RATE, FOLLOWER_RATE)
Entries = Mapping[str, tuple[int, Mapping[str, object] | None]]
"""(generation, value) by key"""


def lock(kind: str, key: str) -> None:
    """Let other changes of this key wait for the end of the caller's transaction. A key without a row is not locked."""
    AccessEntry.objects.select_for_update().filter(kind=kind, key=key).first()


def put(
    kind: str,
    key: str,
    value: Mapping[str, object] | None,
    *,
    actor: str,
    above: int = 0,
    comment: str = "",
    verb: AuditOperation | None = None,
) -> AccessEntry:
    """Set the desired `value` of this key (None: delete it). An equal value changes nothing. `above`: the generation in the metadata log.
    Runs in the caller's transaction."""
    row = AccessEntry.objects.filter(kind=kind, key=key).first()
    if row is not None and row.value == value and row.generation >= above:
        return row
    before = row.value if row is not None else None
    if row is None:
        row = AccessEntry(kind=kind, key=key, generation=0)
    row.value, row.changed_by, row.waiting = None if value is None else dict(value), actor, True
    row.generation = max(row.generation, above) + 1
    row.save()
    if kind == AccessRecordKind.ACL:
        _mirror(before, value, actor)
    name = {
        AccessRecordKind.ACL: _resource_of_acl(value or before),
        BROKER: "all brokers" if key == ALL_BROKERS else key,
    }.get(kind, key)
    hidden = kind == AccessRecordKind.SCRAM
    record(
        actor,
        verb or AuditOperation(f"{kind}.{'delete' if value is None else 'set'}"),
        kind,
        name[:255],
        comment=comment,
        outcome=Outcome.CONFIRMED,
        before=None if hidden else before,
        after=None if hidden else row.value,
        object_id=f"{kind}-{row.pk}",
        generation=row.generation,
    )
    return row


def _resource_of_acl(value: Mapping[str, object] | None) -> str:
    """The name of an ACL in the audit log. Its key contains all fields."""
    return f"{value['resource_type']}:{value['resource_name']}" if value and "resource_type" in value else "an ACL"


def put_settings(
    key: str,
    operations: Sequence[AlterConfigOp],
    logged: Mapping[str, str],
    *,
    actor: str,
    above: int = 0,
    comment: str = "",
    verb: AuditOperation | None = None,
) -> AccessEntry:
    """Change these settings of a broker. The other settings keep their desired values, or without a row their values in the log (`logged`)."""
    row = AccessEntry.objects.filter(kind=BROKER, key=key).first()
    desired = dict((row.value if row is not None and row.generation >= above else logged) or {})
    for op in operations:
        if op.op is OpType.SET:
            desired[op.name] = op.value
        else:
            desired.pop(op.name, None)
    return put(BROKER, key, desired, actor=actor, above=above, comment=comment, verb=verb)


def _mirror(before: Mapping[str, object] | None, value: Mapping[str, object] | None, actor: str) -> None:
    """Apply ACL changes of Kafka clients to the table that pages and scripts read."""
    if value is None and before is not None:
        Acl.objects.filter(**{f: before[f] for f in ACL_FIELDS}).delete()
    elif value is not None:
        Acl.objects.get_or_create(**{f: value[f] for f in ACL_FIELDS}, defaults={"created_by": actor})


def waiting_entries() -> list[AccessEntry]:
    return list(AccessEntry.objects.filter(waiting=True).order_by("pk")[:WAITING_MAX])


def all_entries() -> list[AccessEntry]:
    return list(AccessEntry.objects.order_by("pk"))


def _entries_of_log(image: Image) -> dict[str, Entries]:
    """Return the entries of the metadata log by kind."""
    settings: Entries = {str(broker_id): configs for broker_id, configs in image.broker_configs.items()}
    return {**image.access, BROKER: settings}


def missing_count(image: Image) -> int:
    """The number of entries of the log that this database does not have, or has in an earlier generation. A number above 0 means that the database
    was lost or replaced by an older copy: each change is stored in the database before it is written to the log."""
    generations = {(kind, key): n for kind, key, n in AccessEntry.objects.values_list("kind", "key", "generation")}
    return sum(
        generations.get((kind, key), -1) < generation
        for kind, entries in _entries_of_log(image).items()
        for key, (generation, _) in entries.items()
    )


def require_imported() -> None:
    """Raises Rejected if the monitor counted entries of the log that the database does not have. A change would start from an empty value, and its
    generation would be older than that of the log."""
    missing = Cluster.objects.filter(access_missing__gt=0).values_list("access_missing", flat=True).first()
    if missing:
        raise Rejected(
            sentence(
                "{missing} of the ACLs, credentials, quotas and broker configs in the metadata log are missing from the database, or older there: the database was lost or restored. Run `manage.py import_metadata`, then repeat the change.",
                missing=missing,
            )
        )


def import_access(image: Image, *, actor: str) -> int:
    """Create rows for entries of the log that this database does not have, or has in an earlier generation. Returns the number of rows."""
    imported = 0
    for kind, entries in _entries_of_log(image).items():
        for key, (generation, value) in entries.items():
            row = AccessEntry.objects.filter(kind=kind, key=key).first()
            if row is not None and row.generation >= generation:
                continue
            if kind == AccessRecordKind.ACL:
                _mirror(row.value if row is not None else None, value, actor)
            kept = None if value is None else {k: v for k, v in value.items() if kind != BROKER or k not in RATES}
            # The moves were lost with the database, so nothing else would remove their throttles. The new row contains no throttles and is one generation ahead
            # of the log.
            ahead = value is not None and kept != value
            AccessEntry.objects.update_or_create(
                kind=kind,
                key=key,
                defaults={
                    "value": kept,
                    "generation": generation + ahead,
                    "applied_generation": generation,
                    "waiting": ahead,
                    "changed_by": actor,
                },
            )
            imported += 1
    return imported


def mark_applied(row: AccessEntry, epoch: int) -> None:
    """Record that the log contains this generation. A row with a newer generation, or a row that a newer controller has changed, does not change."""
    AccessEntry.objects.filter(pk=row.pk, generation=row.generation, controller_epoch__lte=epoch).update(
        waiting=False, applied_generation=row.generation, controller_epoch=epoch
    )


def set_password(
    user: str,
    password: str,
    *,
    mechanism: str,
    iterations: int = scram.ITERATIONS_MIN,
    actor: str,
    comment: str = "",
    verb: AuditOperation | None = None,
) -> AccessEntry:
    """Store the SCRAM keys of a password. The password itself is not stored. Raises Rejected."""
    if mechanism not in scram.ALGORITHMS:
        raise not_one_of(
            "Unknown SCRAM mechanism {value}; use one of {allowed}.", mechanism, scram.ALGORITHMS, "mechanism"
        )
    if not user or not password:
        raise Rejected("A user and a password are needed.", "user" if not user else "password")
    salt = secrets.token_bytes(24)
    mixed = scram.salt_password(mechanism, password, salt, iterations)
    value = scram.credential(mechanism, mixed, salt, iterations).to_json()
    return put(AccessRecordKind.SCRAM, f"{mechanism}:{user}", value, actor=actor, comment=comment, verb=verb)


def password_fits(row: AccessEntry, password: str) -> bool:
    """Return whether the stored keys of this row were derived from this password."""
    mechanism, _, _ = row.key.partition(":")
    return row.value is not None and scram.password_fits(mechanism, password, scram.Credential.from_json(row.value))
