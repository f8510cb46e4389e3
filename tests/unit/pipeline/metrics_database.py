"""The rows of Django's test database in a file, so that code without Django can read them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connection, models

from controlplane.models import Broker, Change, ClusterEvent, HistoryChunk, HistoryFrame, HistorySeries

MODELS: tuple[type[models.Model], ...] = (HistorySeries, HistoryFrame, HistoryChunk, Change, ClusterEvent, Broker)


def to_sqlite_values(row: Sequence[Any]) -> list[Any]:
    """Values as Django stores them in SQLite."""
    return [
        connection.ops.adapt_datetimefield_value(v)
        if isinstance(v, datetime)
        else json.dumps(v)
        if isinstance(v, dict | list)
        else v
        for v in row
    ]


def copy_tables(path: Path, disk_bytes: Mapping[int, int] | None = None) -> str:
    """Write the tables that the jobs read, with the definitions that Django made, to a new file. `disk_bytes`: size of the disk by broker. Returns its
    path."""
    for broker_id, total in (disk_bytes or {}).items():
        Broker.objects.filter(broker_id=broker_id).update(total_bytes=total)
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file, connection.cursor() as cursor:
        for model in MODELS:
            name = model._meta.db_table
            cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = %s", [name])
            file.execute(cursor.fetchone()[0])
            rows: list[Any] = list(model._default_manager.order_by("pk").values_list())
            columns = [str(f.column) for f in model._meta.concrete_fields]
            into = f"{name} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"
            file.executemany("INSERT INTO " + into, [to_sqlite_values(r) for r in rows])
    file.close()
    return str(path)
