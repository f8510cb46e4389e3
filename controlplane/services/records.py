"""Reads of a topic's records by people: the permission check and the audit row. Invariants: records are shown only with the permission read_records,
for every role of a user. Internal topics are for administrators, because they contain the activity of every group and transaction. Each read is in
the audit log before its records are shown, and so is each rejected read. Does not contain the reading of records (`selectors.messages`,
`selectors.key_lookups`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Unpack

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied

from brokerd.cluster.model import INTERNAL_TOPICS
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.formats import Format
from controlplane.domain.key_search import ScanCause, scan_cause
from controlplane.domain.masking import RecordRenderer
from controlplane.domain.record_query import RecordQuery, text_of_partitions
from controlplane.domain.roles import Access, RoleResource
from controlplane.models.change import Outcome
from controlplane.selectors import key_lookups, messages
from controlplane.selectors.key_lookups import MATCHES_MAX, KeyLookup
from controlplane.selectors.messages import MessageRead
from controlplane.services import masking
from controlplane.services.authorization import PERMISSION_FOR, permits
from controlplane.services.common import Rejected, record, record_rejection
from weir_common.phrases import counted, sentence

PERMISSION = PERMISSION_FOR[Access.READ_RECORDS]
NEEDS_PERMISSION = (
    "Reading records needs the permission read_records, or the role reader on this topic. An administrator grants it: manage.py read_records USER, or "
    "Role bindings."
)
LOOK_UP_MASKED = "A masking rule hides this part of the records from you; a look-up would disclose it."
KEY_AUDITED_BYTES_MAX = 256
"""Maximum number of bytes of a key in the audit log."""
NEEDS_ADMINISTRATOR = "Records of internal topics are for administrators (superusers)."

User = AbstractBaseUser | AnonymousUser
Formats = tuple[Format, Format]
"""(format of the key, format of the value)"""

AUTOMATIC: Formats = (Format.AUTO, Format.AUTO)


def read_denial(user: User, topic: str) -> str:
    """The reason why this user may not read the records of this topic; "" = reading is allowed."""
    may = isinstance(user, PermissionsMixin)
    if topic in INTERNAL_TOPICS:
        return "" if may and user.is_superuser else NEEDS_ADMINISTRATOR  # type: ignore[union-attr]
    if may and user.has_perm(PERMISSION):  # type: ignore[union-attr]
        return ""
    return "" if permits(user, Access.READ_RECORDS, RoleResource.TOPIC, topic) else NEEDS_PERMISSION


def read_records(user: User, query: RecordQuery, resume: str = "", formats: Formats = AUTOMATIC) -> MessageRead:
    """One page of a read, as masking rules permit; see `selectors.messages.read_messages`. Raises PermissionDenied and Rejected."""
    check_permission(user, AuditOperation.RECORDS_READ, query)
    read = messages.read_messages(query, resume, **renderers(user, query.topic, formats))
    _record_read(user, AuditOperation.RECORDS_READ, query, read)
    return read


def download_records(user: User, query: RecordQuery, resume: str = "", formats: Formats = AUTOMATIC) -> MessageRead:
    """Read records with the limits of a download, as masking rules permit. Raises PermissionDenied and Rejected."""
    check_permission(user, AuditOperation.RECORDS_DOWNLOAD, query)
    read = messages.read_for_download(query, resume, **renderers(user, query.topic, formats))
    _record_read(user, AuditOperation.RECORDS_DOWNLOAD, query, read)
    return read


def renderers(user: User, topic: str, formats: Formats) -> dict[str, RecordRenderer]:
    """`renderer`: the texts that the user sees. `plain`: the same records in automatic formats, for filters."""
    key_format, value_format = formats
    return {
        "renderer": masking.renderer_for(user, topic, key_format=key_format, value_format=value_format),
        "plain": masking.renderer_for(user, topic),
    }


def check_permission(user: User, verb: AuditOperation, query: RecordQuery) -> None:
    """Raises PermissionDenied after the rejection is written to the audit log."""
    if reason := read_denial(user, query.topic):
        record_rejection(
            user.get_username(), verb, "records", name_of(query), Rejected(reason), after=query_facts(query)
        )
        raise PermissionDenied(reason)


def _record_read(user: User, verb: AuditOperation, query: RecordQuery, read: MessageRead | KeyLookup) -> None:
    offsets = [(r.partition, r.offset) for r in read.rows]
    shown: dict[str, object] = {**query_facts(query), "records": len(offsets)}
    detail = sentence("No records.")
    if offsets:
        of_partition: dict[int, list[int]] = {}
        for partition, offset in offsets:
            of_partition.setdefault(partition, []).append(offset)
        shown["offsets"] = {str(p): [min(found), max(found)] for p, found in sorted(of_partition.items())}
        count = len(offsets)
        if len(of_partition) == 1:
            first, last = min(offsets)[1], max(offsets)[1]
            detail = counted(
                count,
                "{count} record. Offset {first}.",
                "{count} records. Offsets {first} to {last}.",
                first=first,
                last=last,
            )
        else:
            detail = sentence("{count} records. {partitions} partitions.", count=count, partitions=len(of_partition))
    record(user.get_username(), verb, "records", name_of(query), after=shown, outcome=Outcome.CONFIRMED, detail=detail)


def name_of(query: RecordQuery) -> str:
    one = f"-{query.partitions[0]}" if len(query.partitions) == 1 else ""
    return f"{query.topic}{one}"[:255]


def query_facts(query: RecordQuery) -> dict[str, object]:
    requested = {**asdict(query), "partitions": text_of_partitions(query.partitions)}
    requested |= requested.pop("filters")
    return {k: v for k, v in requested.items() if v not in (None, "", False)}


def key_scan_cause(user: User, query: RecordQuery) -> ScanCause | None:
    """Return the reason why a search for a key scans the records. None: the search uses the key index. A masked key is compared after the masking rules have
    changed it."""
    masked = masking.renderer_for(user, query.topic).hides()
    return scan_cause(query, indexed=key_lookups.has_key_index(query.topic), masked=masked)


def search_by_key(
    user: User, query: RecordQuery, token: str = "", formats: Formats = AUTOMATIC, *, lake: bool = False
) -> KeyLookup:
    """The newest records with the key of the query, by the key index, and in the `lake` on request. Raises PermissionDenied and Rejected."""
    query.check()
    key_format, value_format = formats
    key, limit = query.filters.key.encode(), min(query.limit, MATCHES_MAX)
    return look_up_records(
        user,
        query.topic,
        key,
        key_format=key_format,
        value_format=value_format,
        limit=limit,
        token=token,
        **_key_range(query, lake=lake),
    )


def download_by_key(
    user: User, query: RecordQuery, token: str = "", formats: Formats = AUTOMATIC, *, lake: bool = False
) -> KeyLookup:
    """Look up the records of a key with the limits of a download, also in the `lake` on request, as masking rules permit. Raises PermissionDenied and Rejected."""
    query.check(messages.DOWNLOAD_RECORDS_MAX)
    check_permission(user, AuditOperation.RECORDS_DOWNLOAD, query)
    renderer = renderers(user, query.topic, formats)["renderer"]
    if renderer.hides():
        raise PermissionDenied(LOOK_UP_MASKED)
    key, searched = query.filters.key.encode(), _key_range(query, lake=lake)
    found = key_lookups.look_up_for_download(
        query.topic, key, renderer=renderer, limit=query.limit, token=token, **searched
    )
    _record_read(user, AuditOperation.RECORDS_DOWNLOAD, query, found)
    return found


def _key_range(query: RecordQuery, *, lake: bool) -> key_lookups.KeyLookupRange:
    from_ms = query.since_ms(time.time_ns() // 1_000_000) or None
    return {"partitions": query.partitions, "from_ms": from_ms, "to_ms": query.until_ms, "lake": lake}


def look_up_records(
    user: User,
    topic: str,
    key: bytes,
    *,
    header: str = "",
    key_format: str = Format.AUTO,
    value_format: str = Format.AUTO,
    **requested: Unpack[key_lookups.KeyLookupPaging],
) -> KeyLookup:
    """Records of a topic by key, as masking rules permit; see `selectors.key_lookups.look_up_key` for the arguments. Raises PermissionDenied, also
    for a key or header that is masked for this user, and Rejected."""
    actor = user.get_username()
    renderer = masking.renderer_for(user, topic, key_format=Format(key_format), value_format=Format(value_format))
    if reason := read_denial(user, topic) or (LOOK_UP_MASKED if renderer.hides(header) else ""):
        after = {"header": header, **_without_empty(requested)}
        record_rejection(actor, AuditOperation.RECORDS_LOOK_UP, "records", topic, Rejected(reason), after=after)
        raise PermissionDenied(reason)
    return look_up_records_as(actor, topic, key, header=header, renderer=renderer, **requested)


def look_up_records_as(
    actor: str, topic: str, key: bytes, **requested: Unpack[key_lookups.KeyLookupOptions]
) -> KeyLookup:
    """Read records for the command line, whose user has the rights of an administrator. Raises Rejected. The key is not in the audit log of a topic with
    masking rules, because viewers read that log."""
    found = key_lookups.look_up_key(topic, key, **requested)
    shown: dict[str, object] = {"topic": topic, "records": len(found.rows)}
    if partitions := requested.get("partitions"):
        shown["partitions"] = text_of_partitions(partitions)
    if requested.get("lake"):
        shown["lake"] = True
    if not masking.has_rules(topic):
        shown["key"] = key[:KEY_AUDITED_BYTES_MAX].decode("utf-8", "backslashreplace")
    detail = sentence("{count} records.", count=len(found.rows)) if found.rows else sentence("No records.")
    record(
        actor, AuditOperation.RECORDS_LOOK_UP, "records", topic, after=shown, outcome=Outcome.CONFIRMED, detail=detail
    )
    return found


def _without_empty(requested: Mapping[str, object]) -> dict[str, object]:
    return {k: v for k, v in requested.items() if v not in (None, (), "", False)}
