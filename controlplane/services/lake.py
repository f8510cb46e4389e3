"""Queries on the lake. Invariant: each query is in the audit log with its text, because masking rules do not apply to the lake."""

from __future__ import annotations

import threading

from controlplane.clients import lake
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models.change import Outcome
from controlplane.services.common import Rejected, record
from weir_common.lake_queries import SQL_LENGTH_MAX, QueryResult
from weir_common.phrases import sentence

QUERIES_MAX = 2
"""Maximum number of queries at a time in this process: each has a process with up to 512 MB."""

_free = threading.BoundedSemaphore(QUERIES_MAX)


def query_lake(sql: str, *, actor: str, comment: str = "") -> QueryResult:
    """The result of one SELECT, limited in rows, time and memory. Raises Rejected for an empty or too long text, and while too many queries run."""
    if not sql.strip():
        raise Rejected("Enter a query.", "sql")
    if len(sql) > SQL_LENGTH_MAX:
        raise Rejected(
            sentence("The query has {count} characters; the maximum is {max}.", count=len(sql), max=SQL_LENGTH_MAX),
            "sql",
        )
    if not _free.acquire(blocking=False):
        raise Rejected(
            sentence("{max} queries are running, which is the maximum; repeat the query later.", max=QUERIES_MAX), "sql"
        )
    try:
        result = lake.query(sql)
    finally:
        _free.release()
    outcome = Outcome.CONFIRMED if result.error is None else Outcome.REJECTED
    record(
        actor,
        AuditOperation.LAKE_QUERY,
        "lake",
        "query",
        comment=comment,
        after={"sql": sql},
        outcome=outcome,
        detail=result.detail,
    )
    return result
