"""The record of changes cannot be edited: triggers in the database refuse it, and a chain of hashes finds what went round them.

Laws: rows are sealed in a transaction of their own, after their act's (an act never waits for another's row); each link holds the digest before
it, so that nothing sealed can be altered, taken out or put in between without a break; who could rewrite the whole chain is found by a head
that was noted elsewhere. Called by the worker (`seal`), the command `verify_audit` and, after each migration, the app (`protect`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connections, transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.models import Change, ChangeSeal, MoveTransition
from controlplane.models.change import Outcome

SEALED_AT_A_TIME = 500
"""Links per look: the worker looks each second, and writes of others wait for no longer than this takes (some 50 ms)."""

UNSEALED_SECONDS_MAX = 300
"""A row that nobody has sealed for longer is told by `verified`: no worker ran, or somebody has put it there."""

BEGINNING = "0" * 64
"""What the first link has before it."""

ACT, OUTCOME = "act", "outcome"
TRIGGERS = (
    "weir_change_final", "weir_change_kept", "weir_seal_final", "weir_seal_kept", "weir_transition_final", "weir_transition_kept",
)  # fmt: skip
REFUSAL = "the record of changes cannot be edited"


# -- the triggers -------------------------------------------------------------------------------------------------------------

_FIXED = (
    "id", "at", "who", "verb", "object_kind", "object_name", "object_id", "generation", "why", "before", "after",
)  # fmt: skip
_ONCE = ("outcome", "detail", "finished_at")


def protect(using: str = "default") -> None:
    """Put the triggers (back) in place: SQLite loses them whenever a migration makes the table anew. Idempotent."""
    connection = connections[using]
    tables = set(connection.introspection.table_names())
    if not {m._meta.db_table for m in (Change, ChangeSeal, MoveTransition)} <= tables:
        return  # migrated to a time before these tables
    with connection.cursor() as cursor:
        for statement in _postgres() if connection.vendor == "postgresql" else _sqlite():
            cursor.execute(statement)


def _sqlite() -> Iterator[str]:
    for name, event, table, when in _rules("IS NOT"):
        condition = f" WHEN {when}" if when else ""
        yield f"DROP TRIGGER IF EXISTS {name}"
        yield f"CREATE TRIGGER {name} BEFORE {event} ON {table}{condition} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"


def _postgres() -> Iterator[str]:
    yield (
        "CREATE OR REPLACE FUNCTION weir_refuse_edit() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for name, event, table, when in _rules("IS DISTINCT FROM"):
        condition = f" WHEN ({when})" if when else ""
        yield f"DROP TRIGGER IF EXISTS {name} ON {table}"
        yield f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW{condition} EXECUTE FUNCTION weir_refuse_edit()"
        if event == "DELETE":
            yield f"DROP TRIGGER IF EXISTS {name}_whole ON {table}"
            yield f"CREATE TRIGGER {name}_whole BEFORE TRUNCATE ON {table} EXECUTE FUNCTION weir_refuse_edit()"


def _rules(differs: str) -> list[tuple[str, str, str, str]]:
    """(name, event, table, condition): a change's act is final at once, its outcome once it is no longer pending; the rest is final whole."""
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
    """Seal what is new: acts, and outcomes that are known. Returns how many links were made; 0 too where another was faster."""
    due = Q(seals=0) | (Q(seals=1) & ~Q(outcome=Outcome.PENDING))
    try:
        with transaction.atomic():
            rows = list(Change.objects.filter(due).order_by("id")[:limit])
            if not rows:
                return 0
            number, digest = _last()
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
        return 0  # another worker has sealed them in this moment


def _last() -> tuple[int, str]:
    return ChangeSeal.objects.order_by("-number").values_list("number", "digest").first() or (0, BEGINNING)


def _link(before: str, row: Change, part: str) -> str:
    facts: list[Any] = [row.pk, part]
    if part == ACT:
        facts += [
            row.at.isoformat(), row.who, row.verb, row.object_kind, row.object_name, row.object_id, row.generation, row.why,
            row.before, row.after,
        ]  # fmt: skip
    else:
        facts += [row.outcome, row.detail, row.finished_at.isoformat() if row.finished_at else None]
    said = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{before}\n{said}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`head` is (number, digest) of the last link; `problems` are sentences, empty when the record is what was sealed."""

    changes: int
    links: int
    head: tuple[int, str]
    problems: list[str]


def verified(noted: tuple[int, str] | None = None) -> Verdict:
    """Walk the whole chain. `noted`: a head (number, digest) that was written down elsewhere earlier; it must be a link of this chain.
    Costs what the record is long (some 30,000 links a second)."""
    problems = [f"Trigger {t} is missing; `migrate` puts it back." for t in _missing_triggers()]
    digest, number, links = BEGINNING, 0, 0
    met = noted is None
    sealed: dict[int, int] = {}
    for link in ChangeSeal.objects.select_related("change").order_by("number").iterator(chunk_size=1000):
        links += 1
        number += 1
        if link.number != number:
            problems.append(f"Links {number} to {link.number - 1} of the chain are gone.")
            number = link.number
        row = link.change
        if link.digest != _link(digest, row, link.part):
            problems.append(
                f"Change {row.pk} ({row.verb} of {row.object_name} by {row.who}) is not what was sealed at {link.sealed_at:%Y-%m-%d %H:%M:%S} "
                f"as link {number} ({link.part}), or a link before it was."
            )
        sealed[row.pk] = sealed.get(row.pk, 0) + 1
        digest = link.digest  # go on from what stands there: the next break is another one
        met = met or (link.number, link.digest) == noted
    if not met and noted is not None:
        problems.append(f"Link {noted[0]} with digest {noted[1][:12]}.. that was noted is not in this chain.")
    problems += _unsealed(sealed)
    return Verdict(Change.objects.count(), links, (number, digest), problems)


def _unsealed(sealed: dict[int, int]) -> Iterator[str]:
    """Rows that say they are sealed and are not, and rows that nobody has sealed for long."""
    late = timezone.now() - timedelta(seconds=UNSEALED_SECONDS_MAX)
    rows = Change.objects.order_by("id").values_list("id", "seals", "at", "outcome", "finished_at")
    for pk, seals, at, outcome, finished_at in rows.iterator(chunk_size=5000):
        links = sealed.get(pk, 0)
        if links < seals:
            yield f"Change {pk} was sealed {seals} times, and {links} of its links are there."
        elif links == 0 and at < late:
            yield f"Change {pk} of {at:%Y-%m-%d %H:%M:%S} was never sealed."
        elif links < 2 and outcome != Outcome.PENDING and finished_at is not None and finished_at < late:
            yield f"Change {pk}: its outcome ({outcome}) was never sealed."
