"""A small fixed sample of `make lake-kills`, and what its check finds in a lake that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lake import archiving, tables
from tests.pipeline import lake_kills
from weir_common.lake_catalog import LakeSettings


def test_kills_at_the_steps_of_commits_lose_and_repeat_nothing(tmp_path: Path) -> None:
    kills, wrong = lake_kills.run(tmp_path, rounds=6, seed=4)
    assert sum(kills.values()) >= 4
    assert wrong == []


def test_the_check_finds_dead_letters_that_were_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "publish_dead_letters", lambda *_: 0)
    lake = LakeSettings.of_folder(tmp_path)
    lake_kills.archive(lake, 10, 60, tables.no_step)
    assert lake_kills.differences(lake, 10) == [f"{(p, o)} is lost" for p in (0, 1) for o in (5, 7)]


def test_the_check_finds_rows_of_a_batch_that_was_committed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeSettings.of_folder(tmp_path)
    lake_kills.archive(lake, 4, 60, tables.no_step)
    monkeypatch.setattr(tables, "positions", lambda _: {})
    monkeypatch.setattr(archiving, "positions", lambda _: {})
    lake_kills.archive(lake, 4, 60, tables.no_step)
    assert f"{(0, 0)} is 2 times in the table" in lake_kills.differences(lake, 4)
