"""Data files of a table as a view of DuckDB: `read_parquet` for files of a file system, a dataset of pyarrow for S3 and other object stores.

DuckDB reads S3 only with an extension that is downloaded at run time, so pyarrow reads there, with the properties of the catalogue. Filters and columns of
a query are pushed down to pyarrow too. Does not contain: the choice of files, limits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.dataset as ds
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.table import Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOCAL = "file://"


class FilesUnreadable(Exception):
    """DuckDB cannot read the files of the table. The text says why."""


def create_view(connection: DuckDBPyConnection, target: str, table: Table, paths: Sequence[str]) -> list[str]:
    """Create the view `target`, a quoted name, with the rows of these files, at least one. Returns the paths that DuckDB opens for it. Raises FilesUnreadable."""
    if all(p.startswith(LOCAL) for p in paths):
        local = [unquote(p.removeprefix(LOCAL)) for p in paths]
        source = f"read_parquet({sql_list(local)}, union_by_name = true, hive_partitioning = false)"
    else:
        local, source = [], quote(f"files of {target}")
        connection.register(f"files of {target}", dataset(table, paths))
    connection.execute(f"CREATE VIEW {target} AS SELECT * FROM {source}")  # noqa: S608 - names and paths are quoted.
    return local


def dataset(table: Table, paths: Sequence[str]) -> ds.Dataset:
    """The files with the columns of the table; a column that a file lacks is null. Raises FilesUnreadable."""
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        raise FilesUnreadable(f"The files of table {table.name()[-1]} are read with {type(io).__name__} (py-io-impl).")
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in paths:
        scheme, host, place = io.parse_location(path, io.properties)
        places[scheme, host].append(place)
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    parts = [
        ds.dataset(found, schema=schema, filesystem=io.fs_by_scheme(scheme, host), format="parquet")
        for (scheme, host), found in places.items()
    ]
    return parts[0] if len(parts) == 1 else ds.dataset(parts, schema=schema)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_list(paths: Sequence[str]) -> str:
    return "[" + ", ".join("'" + p.replace("'", "''") + "'" for p in paths) + "]"
