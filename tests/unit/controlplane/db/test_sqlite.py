from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.db import connection

from controlplane.db import sqlite


def test_a_restored_database_file_is_detected_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, backup = tmp_path / "db.sqlite3", tmp_path / "backup"
    file.write_bytes(b"today")
    backup.write_bytes(b"yesterday")
    closed: list[bool] = []
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    monkeypatch.setattr(connection, "close", lambda: closed.append(True))
    monkeypatch.setattr(sqlite, "_opened", type("Fresh", (), {})())
    assert not sqlite.drop_if_replaced()
    assert not sqlite.drop_if_replaced()
    shutil.move(backup, file)
    assert sqlite.drop_if_replaced()
    assert not sqlite.drop_if_replaced()
    assert closed == [True]


def test_a_missing_database_file_is_no_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "none"))
    assert not sqlite.drop_if_replaced()
