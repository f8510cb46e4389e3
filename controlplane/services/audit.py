"""Tamper protection of the audit log. Database triggers reject edits of change rows. A hash chain detects edits that bypassed the triggers.

Invariants: rows are sealed in a separate transaction after the transaction of their operation, so an operation never waits for the row of another
one. Each link contains the digest of the link before it, so a sealed row cannot be altered, removed or inserted without a break in the chain. A rewrite of the
whole chain can only be detected with a head that was stored elsewhere. The worker seals (`seal`), the command `verify_audit` verifies, and the app
restores the triggers after each migration (`protect`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, connections, transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.models import Change, ChangeSeal, MoveTransition
from controlplane.models.change import Outcome

SEALED_AT_A_TIME = 500
"""Links per run. The worker seals each second, and other writers wait no longer than one run takes (about 50 ms)."""

UNSEALED_SECONDS_MAX = 300
"""`verify_chain` reports a row that stays unsealed for longer: no worker ran, or the row was inserted from outside."""

BEGINNING = "0" * 64
"""The previous digest of the first link."""

ACT, OUTCOME = "act", "outcome"
TRIGGERS = (
    "weir_change_final",
    "weir_change_kept",
    "weir_seal_final",
    "weir_seal_kept",
    "weir_transition_final",
    "weir_transition_kept",
)
REJECTION = "the record of changes cannot be edited"


# -- the triggers -------------------------------------------------------------------------------------------------------------

_FIXED = (
    "id",
    "at",
    "actor",
    "verb",
    "object_kind",
    "object_name",
    "object_id",
    "generation",
    "comment",
    "before",
    "after",
)
_ONCE = ("outcome", "detail", "finished_at")


def protect(using: str = "default") -> None:
    """Create the triggers (again). SQLite drops them when a migration recreates the table. Idempotent."""
    connection = connections[using]
    tables = set(connection.introspection.table_names())
    if not {m._meta.db_table for m in (Change, ChangeSeal, MoveTransition)} <= tables:
        return  # after a migration back to a version without these tables
    with connection.cursor() as cursor:
        for statement in _postgres() if connection.vendor == "postgresql" else _sqlite():
            cursor.execute(statement)


def _sqlite() -> Iterator[str]:
    for name, event, table, when in _rules("IS NOT"):
        condition = f" WHEN {when}" if when else ""
        yield f"DROP TRIGGER IF EXISTS {name}"
        yield f"CREATE TRIGGER {name} BEFORE {event} ON {table}{condition} BEGIN SELECT RAISE(ABORT, '{REJECTION}'); END"


def _postgres() -> Iterator[str]:
    yield (
        "CREATE OR REPLACE FUNCTION weir_refuse_edit() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REJECTION}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for name, event, table, when in _rules("IS DISTINCT FROM"):
        condition = f" WHEN ({when})" if when else ""
        yield f"DROP TRIGGER IF EXISTS {name} ON {table}"
        yield f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW{condition} EXECUTE FUNCTION weir_refuse_edit()"
        if event == "DELETE":
            yield f"DROP TRIGGER IF EXISTS {name}_whole ON {table}"
            yield f"CREATE TRIGGER {name}_whole BEFORE TRUNCATE ON {table} EXECUTE FUNCTION weir_refuse_edit()"


def _rules(differs: str) -> list[tuple[str, str, str, str]]:
    """(name, event, table, condition). A change row is final immediately, except its outcome, which is final when it is no longer pending. Other rows are
    final as a whole."""
    act = " OR ".join(f"NEW.{c} {differs} OLD.{c}" for c in _FIXED)
    end = " OR ".join(f"NEW.{c} {differs} OLD.{c}" for c in _ONCE)
    edited = f"{act} OR (OLD.outcome <> 'pending' AND ({end})) OR NEW.seals < OLD.seals"
    change, seal, transition_ = (m._meta.db_table for m in (Change, ChangeSeal, MoveTransition))
    return [
        (TRIGGERS[0], "UPDATE", change, edited),
        (TRIGGERS[1], "DELETE", change, ""),
        (TRIGGERS[2], "UPDATE", seal, ""),
        (TRIGGERS[3], "DELETE", seal, ""),
        (TRIGGERS[4], "UPDATE", transition_, ""),
        (TRIGGERS[5], "DELETE", transition_, ""),
    ]


def _missing_triggers(using: str = "default") -> list[str]:
    connection = connections[using]
    known = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'",
    }
    with connection.cursor() as cursor:
        cursor.execute(known[connection.vendor])
        found = {row[0] for row in cursor.fetchall()}
    return [t for t in TRIGGERS if t not in found]


# -- the chain -----------------------------------------------------------------------------------------------------------------


def seal(limit: int = SEALED_AT_A_TIME) -> int:
    """Seal new change rows and known outcomes. Returns the number of new links, also 0 when another worker was faster."""
    due = Q(seals=0) | (Q(seals=1) & ~Q(outcome=Outcome.PENDING))
    try:
        with transaction.atomic():
            rows = list(Change.objects.filter(due).order_by("id")[:limit])
            if not rows:
                return 0
            number, digest = _last_seal()
            links: list[ChangeSeal] = []
            ended: dict[bool, list[int]] = {True: [], False: []}
            for row in rows:
                over = row.outcome != Outcome.PENDING
                for part in (ACT, OUTCOME) if over else (ACT,):
                    if part == ACT and row.seals:
                        continue
                    number += 1
                    digest = _link(digest, row, part)
                    links.append(ChangeSeal(number=number, change=row, part=part, digest=digest))
                ended[over].append(row.pk)
            ChangeSeal.objects.bulk_create(links)
            for over, ids in ended.items():
                Change.objects.filter(pk__in=ids).update(seals=2 if over else 1)
            return len(links)
    except IntegrityError:
        return 0  # another worker has just sealed them


def _last_seal() -> tuple[int, str]:
    return ChangeSeal.objects.order_by("-number").values_list("number", "digest").first() or (0, BEGINNING)


def _link(before: str, row: Change, part: str) -> str:
    facts: list[object] = [row.pk, part]
    if part == ACT:
        facts += [
            row.at.isoformat(),
            row.actor,
            row.verb,
            row.object_kind,
            row.object_name,
            row.object_id,
            row.generation,
            row.comment,
            row.before,
            row.after,
        ]
    else:
        facts += [row.outcome, row.detail, row.finished_at.isoformat() if row.finished_at else None]
    content = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{before}\n{content}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`head` is (number, digest) of the last link. `problems` are sentences, empty when the log is as it was sealed."""

    changes: int
    links: int
    head: tuple[int, str]
    problems: list[str]


def verify_chain(noted: tuple[int, str] | None = None) -> Verdict:
    """Verify the whole chain. `noted`: a head (number, digest) that was noted elsewhere earlier. It must be a link of this chain.
    The cost grows with the length of the log (about 30,000 links a second)."""
    problems = [f"Trigger {t} is missing; `manage.py migrate` creates it again." for t in _missing_triggers()]
    digest, number, links = BEGINNING, 0, 0
    met = noted is None
    sealed: dict[int, int] = {}
    for link in ChangeSeal.objects.select_related("change").order_by("number").iterator(chunk_size=1000):
        links += 1
        number += 1
        if link.number != number:
            problems.append(f"Links {number} to {link.number - 1} of the chain are missing.")
            number = link.number
        row = link.change
        if link.digest != _link(digest, row, link.part):
            problems.append(
                f"Change {row.pk} ({row.verb} of {row.object_name} by {row.actor}) does not match link {number} ({link.part}) of {link.sealed_at:%Y-%m-%d %H:%M:%S} "
                f"as link {number} ({link.part}), or a link before it was."
            )
        sealed[row.pk] = sealed.get(row.pk, 0) + 1
        digest = link.digest  # continue from the stored digest, so that a later break is reported as another one
        met = met or (link.number, link.digest) == noted
    if not met and noted is not None:
        problems.append(f"Link {noted[0]} with digest {noted[1][:12]}.. is not in this chain.")
    problems += _unsealed_rows(sealed)
    return Verdict(Change.objects.count(), links, (number, digest), problems)


def _unsealed_rows(sealed: dict[int, int]) -> Iterator[str]:
    """Rows that have fewer links than seals, and rows that have been unsealed for too long."""
    late = timezone.now() - timedelta(seconds=UNSEALED_SECONDS_MAX)
    rows = Change.objects.order_by("id").values_list("id", "seals", "at", "outcome", "finished_at")
    for pk, seals, at, outcome, finished_at in rows.iterator(chunk_size=5000):
        links = sealed.get(pk, 0)
        if links < seals:
            yield f"Change {pk} was sealed {seals} times, but the chain has {links} of its links."
        elif links == 0 and at < late:
            yield f"Change {pk} of {at:%Y-%m-%d %H:%M:%S} was never sealed."
        elif links < 2 and outcome != Outcome.PENDING and finished_at is not None and finished_at < late:
            yield f"Change {pk}: its outcome ({outcome}) was never sealed."
