"""The lock of a driver's folder: one process at a time, and its process id."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weir_common.driver_lock import LOCK_FILE, FolderLock, FolderLocked, last_pid


def test_the_lock_names_its_process_and_a_second_one_does_not_change_that(tmp_path: Path) -> None:
    assert last_pid(tmp_path) is None
    for _ in range(2):
        lock = FolderLock(tmp_path)
        assert last_pid(tmp_path) == os.getpid()
        with pytest.raises(FolderLocked):
            FolderLock(tmp_path)
        assert last_pid(tmp_path) == os.getpid()
        lock.close()


def test_an_empty_lock_of_an_earlier_version_names_no_process(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    assert last_pid(tmp_path) is None
