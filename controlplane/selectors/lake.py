"""Tables of the lake, from its catalogue. The shapes are those of the client (`controlplane.clients.lake`)."""

from __future__ import annotations

from controlplane.clients.lake import (
    LakeColumn,
    LakeFile,
    LakePosition,
    LakeSnapshot,
    LakeTable,
    LakeTableDetail,
    LakeUnavailable,
    table,
    tables,
)
from weir_common.lake_queries import QueryError, QueryResult

__all__ = [
    "LakeColumn",
    "LakeFile",
    "LakePosition",
    "LakeSnapshot",
    "LakeTable",
    "LakeTableDetail",
    "LakeUnavailable",
    "QueryError",
    "QueryResult",
    "table",
    "tables",
]
