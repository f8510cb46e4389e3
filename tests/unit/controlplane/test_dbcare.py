from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.db import connection

from controlplane import dbcare


def test_a_database_file_put_back_is_noticed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, backup = tmp_path / "db.sqlite3", tmp_path / "backup"
    file.write_bytes(b"today")
    backup.write_bytes(b"yesterday")
    closed: list[bool] = []
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    monkeypatch.setattr(connection, "close", lambda: closed.append(True))
    monkeypatch.setattr(dbcare, "_opened", type("Fresh", (), {})())
    assert not dbcare.drop_if_replaced()
    assert not dbcare.drop_if_replaced()
    shutil.move(backup, file)
    assert dbcare.drop_if_replaced()
    assert not dbcare.drop_if_replaced()
    assert closed == [True]


def test_a_file_that_is_not_there_is_no_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "none"))
    assert not dbcare.drop_if_replaced()
