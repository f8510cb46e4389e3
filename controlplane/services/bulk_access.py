"""Deletion of many quotas or SCRAM users: its preview, and its execution one by one.

Invariant: only rows of the preview are deleted. A rejection of one row does not stop the other rows, and its reason is in the result. Does not contain: one
deletion (`quotas`, `users`), the roles (`controlplane.services.authorization`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from controlplane.domain.quota import entity_text
from controlplane.selectors.bulk_lists import row_ids
from controlplane.selectors.quotas import quota_rows, quota_shape
from controlplane.selectors.users import user_rows
from controlplane.selectors.visibility import visible
from controlplane.services import quotas, users
from controlplane.services.common import Rejected, needs_reason
from weir_common.phrases import sentence

ROWS_MAX = 500
"""Maximum number of quotas or users of one bulk deletion: each is a transaction, and all of them run in one request of the console."""


class BulkAccessKind(StrEnum):
    QUOTAS = "quotas"
    USERS = "users"


class BulkAccessOutcome(StrEnum):
    DONE = "done"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class BulkAccessRow:
    """`key`: the id of a quota, the name of a user. `name`: as the lists show it. `lost`: the limits or mechanisms that are deleted."""

    key: str
    name: str
    lost: str


@dataclass(frozen=True, slots=True)
class BulkAccessResult:
    name: str
    outcome: BulkAccessOutcome
    detail: str


def preview(kind: BulkAccessKind, keys: Sequence[str]) -> list[BulkAccessRow]:
    """The rows that a deletion would delete, in the order of the keys. Unknown keys are omitted. Raises Rejected for too many."""
    _limit(keys)
    found = {row.key: row for row in (_quotas(keys) if kind is BulkAccessKind.QUOTAS else _users(keys))}
    return [found[key] for key in dict.fromkeys(keys) if key in found]


def delete(kind: BulkAccessKind, keys: Sequence[str], *, actor: str, comment: str) -> list[BulkAccessResult]:
    """Delete the rows one after the other, each with its change in the audit log. If it raises Rejected, nothing was deleted."""
    needs_reason(comment)
    _limit(keys)
    names = {row.key: row.name for row in preview(kind, keys)}

    def delete_one(key: str) -> None:
        if kind is BulkAccessKind.USERS:
            users.delete_user(key, actor=actor, comment=comment)
        elif key.isascii() and key.isdigit():
            quotas.delete_quota(int(key), actor=actor, comment=comment)
        else:
            raise Rejected(sentence("{key} is no number of a quota.", key=repr(key)))

    return [_result(names.get(key, key), partial(delete_one, key)) for key in dict.fromkeys(keys)]


def _result(name: str, run: Callable[[], None]) -> BulkAccessResult:
    try:
        run()
    except Rejected as error:
        return BulkAccessResult(name, BulkAccessOutcome.REJECTED, error.reason)
    return BulkAccessResult(name, BulkAccessOutcome.DONE, "")


def _limit(keys: Sequence[str]) -> None:
    if len(keys) > ROWS_MAX:
        raise Rejected(
            sentence(
                "{count} rows are more than {max}, the limit of a bulk deletion. Narrow the filter, or select rows.",
                count=f"{len(keys):,}",
                max=f"{ROWS_MAX:,}",
            )
        )


def _quotas(keys: Sequence[str]) -> Iterable[BulkAccessRow]:
    numbers = row_ids(keys)
    for row in map(quota_shape, visible(quota_rows().filter(pk__in=numbers))):
        limits = ", ".join(f"{limit.quota} {limit.value:,.12g} {limit.unit}" for limit in row.limits)
        yield BulkAccessRow(str(row.id), entity_text(row.entity), limits)


def _users(keys: Sequence[str]) -> Iterable[BulkAccessRow]:
    for user in user_rows(keys):
        yield BulkAccessRow(user.name, user.name, ", ".join(c.mechanism for c in user.credentials))
