"""The environment of a broker: locks of data directories, the boot id, the limit of file descriptors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerd import environment
from brokerd.environment import Environment


def test_the_soft_limit_of_file_descriptors_is_raised_to_the_hard_limit() -> None:
    import resource

    assert Environment().descriptors_max == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def test_a_directory_is_locked_for_one_environment(tmp_path: Path) -> None:
    first, second = Environment(), Environment()
    assert first.lock(tmp_path) and not second.lock(tmp_path)
    for fd in first._locks:
        os.close(fd)
    assert second.lock(tmp_path), "the lock ends with its owner"


def test_the_boot_id_is_that_of_the_kernel_or_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "boot_id"
    monkeypatch.setattr(environment, "BOOT_ID", path)
    assert Environment().boot_id == ""
    path.write_text("b-1\n")
    assert Environment().boot_id == "b-1"


def test_ids_do_not_repeat_and_producer_ids_are_positive() -> None:
    it = Environment()
    assert it.draw_life() != it.draw_life()
    assert all(0 <= it.draw_producer_id() < 2**62 for _ in range(100))
