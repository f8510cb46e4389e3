"""ACLs, credentials, quotas and brokers' settings on their way to the brokers: rows with generations, carried by the metadata log.

Law: each act leaves a change row that holds no key of anybody's; deletion is a row without a value. Called by `acls`, the controller's database thread, commands.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from brokerd.access import scram
from brokerd.cluster.configs import FOLLOWER_RATE, LEADER_RATE
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BROKER
from controlplane.models import AccessEntry, Acl
from controlplane.models.change import Outcome
from controlplane.services.common import Refused, record

WAITING_MAX = 500
"""Rows handed to the controller at once; the rest follows when these are applied."""
ALL_BROKERS = "-1"
RATES = (LEADER_RATE, FOLLOWER_RATE)
Entries = Mapping[str, tuple[int, Mapping[str, Any] | None]]
"""By key: generation and value."""
ACL_FIELDS = ("resource_type", "pattern_type", "resource_name", "principal", "host", "operation", "permission")


def acl_key(acl: Mapping[str, str]) -> str:
    """An ACL is its own key."""
    return "|".join(acl[f].replace("|", "\\|") for f in ACL_FIELDS)


def put(
    kind: str,
    key: str,
    value: Mapping[str, Any] | None,
    *,
    who: str,
    above: int = 0,
    why: str = "",
    verb: str = "",
) -> AccessEntry:
    """Want `value` (None: nothing) under this key; the same again changes nothing. `above`: the generation that the log has. In the caller's transaction."""
    row = AccessEntry.objects.filter(kind=kind, key=key).first()
    if row is not None and row.value == value and row.generation >= above:
        return row
    before = row.value if row is not None else None
    if row is None:
        row = AccessEntry(kind=kind, key=key, generation=0)
    row.value, row.changed_by, row.waiting = None if value is None else dict(value), who, True
    row.generation = max(row.generation, above) + 1
    row.save()
    if kind == "acl":
        _mirror(before, value, who)
    name = {"acl": "an ACL", BROKER: "all brokers" if key == ALL_BROKERS else key}.get(kind, key)
    hidden = kind == "scram"
    record(
        who, verb or f"{kind}.{'delete' if value is None else 'set'}", kind, name[:255], why=why, outcome=Outcome.CONFIRMED,
        before=None if hidden else before, after=None if hidden else row.value, object_id=f"{kind}-{row.pk}", generation=row.generation,
    )  # fmt: skip
    return row


def put_settings(
    key: str,
    operations: Sequence[Mapping[str, Any]],
    held: Mapping[str, str],
    *,
    who: str,
    above: int = 0,
    why: str = "",
    verb: str = "",
) -> AccessEntry:
    """Want these settings of a broker changed, the others left as they are wanted (or, without a row, as the log has them: `held`)."""
    row = AccessEntry.objects.filter(kind=BROKER, key=key).first()
    wanted = dict((row.value if row is not None and row.generation >= above else held) or {})
    for op in operations:
        if op["op"] == "set":
            wanted[op["name"]] = op["value"]
        else:
            wanted.pop(op["name"], None)
    return put(BROKER, key, wanted, who=who, above=above, why=why, verb=verb)


def _mirror(before: Mapping[str, Any] | None, value: Mapping[str, Any] | None, who: str) -> None:
    """The table that pages and scripts read follows what clients ask brokers for."""
    if value is None and before is not None:
        Acl.objects.filter(**{f: before[f] for f in ACL_FIELDS}).delete()
    elif value is not None:
        Acl.objects.get_or_create(**{f: value[f] for f in ACL_FIELDS}, defaults={"created_by": who})


def waiting() -> list[AccessEntry]:
    return list(AccessEntry.objects.filter(waiting=True).order_by("pk")[:WAITING_MAX])


def everything() -> list[AccessEntry]:
    return list(AccessEntry.objects.order_by("pk"))


def import_access(image: Image, *, who: str) -> int:
    """Rows for what the log holds and this database lacks or has in an earlier generation. Returns how many."""
    imported = 0
    settings: Entries = {str(broker_id): configs for broker_id, configs in image.broker_configs.items()}
    for kind, entries in {**image.access, BROKER: settings}.items():
        for key, (generation, value) in entries.items():
            row = AccessEntry.objects.filter(kind=kind, key=key).first()
            if row is not None and row.generation >= generation:
                continue
            if kind == "acl":
                _mirror(row.value if row is not None else None, value, who)
            kept = None if value is None else {k: v for k, v in value.items() if kind != BROKER or k not in RATES}
            # The moves are lost with the database, and nobody else would take their throttles off: the row is a generation ahead without them.
            ahead = value is not None and kept != value
            AccessEntry.objects.update_or_create(
                kind=kind, key=key,
                defaults={"value": kept, "generation": generation + ahead, "applied_generation": generation, "waiting": ahead,
                          "changed_by": who},
            )  # fmt: skip
            imported += 1
    return imported


def mark_applied(row: AccessEntry, epoch: int) -> None:
    """The log has this generation. A newer one, or a newer controller's word, stays as it is."""
    AccessEntry.objects.filter(pk=row.pk, generation=row.generation, controller_epoch__lte=epoch).update(
        waiting=False, applied_generation=row.generation, controller_epoch=epoch
    )


def set_password(
    user: str, password: str, *, mechanism: str, iterations: int = scram.ITERATIONS_MIN, who: str
) -> AccessEntry:
    """Keep what SCRAM needs of a password; the password itself goes nowhere. Raises Refused."""
    if mechanism not in scram.ALGORITHMS:
        raise Refused(f"{mechanism!r} is no mechanism of SCRAM; use one of {', '.join(scram.ALGORITHMS)}.", "mechanism")
    if not user or not password:
        raise Refused("A user and a password are needed.", "user" if not user else "password")
    salt = secrets.token_bytes(24)
    mixed = scram.salted(mechanism, password, salt, iterations)
    value = scram.credential(mechanism, mixed, salt, iterations).to_json()
    return put("scram", f"{mechanism}:{user}", value, who=who)


def password_fits(row: AccessEntry, password: str) -> bool:
    """Whether what is kept in this row is of this very password."""
    mechanism, _, _ = row.key.partition(":")
    return row.value is not None and scram.password_fits(mechanism, password, scram.Credential.from_json(row.value))
