"""The rows of Django's test database in a file, so that code without Django can read them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connection, models

from controlplane.models import Change, ClusterEvent, HistoryChunk, HistoryFrame, HistorySeries

MODELS: tuple[type[models.Model], ...] = (HistorySeries, HistoryFrame, HistoryChunk, Change, ClusterEvent)


def stored(row: Sequence[Any]) -> list[Any]:
    """Values as Django stores them in SQLite."""
    return [
        connection.ops.adapt_datetimefield_value(v)
        if isinstance(v, datetime)
        else json.dumps(v)
        if isinstance(v, dict | list)
        else v
        for v in row
    ]


def copied(path: Path) -> str:
    """Write the tables that the jobs read, with the definitions that Django made, to a new file. Returns its path."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as file, connection.cursor() as cursor:
        for model in MODELS:
            name = model._meta.db_table
            cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = %s", [name])
            file.execute(cursor.fetchone()[0])
            rows: list[Any] = list(model._default_manager.order_by("pk").values_list())
            columns = [f.column for f in model._meta.concrete_fields]
            into = f"{name} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"
            file.executemany("INSERT INTO " + into, [stored(r) for r in rows])
    file.close()
    return str(path)
