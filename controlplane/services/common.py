"""Helpers of all services: the required reason, and the change row of an operation or of a rejected operation.

Invariant: a rejection names the operation, the reason, and the condition that would make the operation possible.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.errors import AlreadyExists as AlreadyExists
from controlplane.domain.errors import Rejected as Rejected
from controlplane.models import Change, ChangePhrase
from controlplane.models.change import Outcome as Outcome
from weir_common.phrases import phrase_to_json

READ_ONLY = "The console and the REST API are read-only now (WEIR_READ_ONLY). Nothing was changed."
"""The error for every change while the console is read-only."""


def needs_reason(comment: str) -> None:
    """Raises Rejected for a costly operation without a reason. The API and the console require one from people. Clients and Weir's own processes give
    none."""
    if not comment.strip():
        raise Rejected("Give a reason; it is recorded in the audit log.", "comment")


OBJECT_CHARS_MAX = 255
"""Maximum number of characters of the name of an object in the audit log, as in its column. An alert may have a longer subject."""


def record(
    actor: str,
    verb: AuditOperation,
    object_kind: str,
    object_name: str,
    *,
    comment: str = "",
    before: object = None,
    after: object = None,
    object_id: str = "",
    generation: int | None = None,
    outcome: Outcome = Outcome.PENDING,
    detail: str = "",
) -> Change:
    """Write the change row of an operation, in the transaction of the operation."""
    change = Change.objects.create(
        actor=actor,
        verb=verb,
        object_kind=object_kind,
        object_name=object_name[:OBJECT_CHARS_MAX],
        comment=comment,
        before=before,
        after=after,
        object_id=object_id,
        generation=generation,
        outcome=outcome,
        detail=detail,
        finished_at=None if outcome == Outcome.PENDING else timezone.now(),
    )
    _keep_phrase([change.pk], detail)
    return change


def _keep_phrase(change_ids: Collection[int], detail: str) -> None:
    """Write the phrase of the detail, which other languages than English show. A detail of a reason from elsewhere has none."""
    if phrase := phrase_to_json(detail):
        rows = [ChangePhrase(change_id=pk, detail=phrase) for pk in change_ids]
        ChangePhrase.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["change"], update_fields=["detail"]
        )


def record_rejection(
    actor: str,
    verb: AuditOperation,
    object_kind: str,
    object_name: str,
    rejected: Rejected,
    *,
    comment: str = "",
    after: object = None,
) -> None:
    """Write the change row of a rejected operation. Must run outside the transaction that the rejection rolled back."""
    record(
        actor,
        verb,
        object_kind,
        object_name,
        comment=comment,
        after=after,
        outcome=Outcome.REJECTED,
        detail=rejected.reason,
    )


@contextmanager
def recorded_rejections(
    actor: str, verb: AuditOperation, object_kind: str, object_name: str, *, comment: str = "", after: object = None
) -> Iterator[None]:
    """Write a change row if the block raises Rejected. The transaction must be inside the block, so that its rollback does not remove the change row."""
    try:
        yield
    except Rejected as rejection:
        record_rejection(actor, verb, object_kind, object_name, rejection, comment=comment, after=after)
        raise


P = ParamSpec("P")
T = TypeVar("T")
Arguments = Mapping[str, Any]
"""Arguments of one call by parameter name, defaults included."""


def audited(
    verb: AuditOperation,
    name: str | Callable[[Arguments], str],
    *,
    kind: str = "",
    after: Callable[[Arguments], object] | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a service with the parameters `actor` and `comment`: writes a change row for a Rejected that the service raises
    (`recorded_rejections`).

    `name`: the object's name, as a format of the parameters ("{topic}-{partition}") or a function of the arguments. `after`: the requested values.
    `kind`: the object's kind, if it is not the first part of `verb`. The service itself records a success, in its transaction.
    """

    def decorate(service: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(service)

        @wraps(service)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return service(*args, **kwargs)
            except Rejected as rejection:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                arguments = bound.arguments
                text = name.format_map(arguments) if isinstance(name, str) else name(arguments)
                requested = after(arguments) if after is not None else None
                object_kind = kind or verb.partition(".")[0]
                record_rejection(
                    arguments["actor"],
                    verb,
                    object_kind,
                    text[:255],
                    rejection,
                    comment=arguments.get("comment", ""),
                    after=requested,
                )
                raise

        return run

    return decorate


def finish_changes(object_id: str, generation: int | None, outcome: Outcome, detail: str = "") -> int:
    """Set the outcome of pending changes of this object up to `generation` (None = all). An outcome is set only once. Returns the number of
    rows."""
    rows = Change.objects.filter(object_id=object_id, outcome=Outcome.PENDING)
    return finish_rows(rows if generation is None else rows.filter(generation__lte=generation), outcome, detail)


def finish_rows(rows: QuerySet[Change], outcome: Outcome, detail: str) -> int:
    """Set the outcome of these pending changes. Returns the number of rows."""
    ids = list(rows.values_list("pk", flat=True)) if phrase_to_json(detail) else []
    with transaction.atomic():
        finished = rows.update(outcome=outcome, detail=detail, finished_at=timezone.now())
        _keep_phrase(ids, detail)
    return finished
