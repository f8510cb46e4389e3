"""`.ci/find-python` with interpreters that only print a time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAST, SLOW = 1_000, 2_000
"""Nanoseconds. A real interpreter of this machine takes more, so it is not chosen."""

Find = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str, int | None], Path]:
    def install_program(path: str, nanoseconds: int | None) -> Path:
        """A program that prints `nanoseconds`, or fails."""
        program = tmp_path / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{'exit 1' if nanoseconds is None else f'echo {nanoseconds}'}\n")
        program.chmod(0o755)
        return program

    return install_program


@pytest.fixture
def find(tmp_path: Path) -> Find:
    def find_version(*versions: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path / 'path'}:/usr/bin:/bin",
            "PYENV_ROOT": str(tmp_path / "pyenv"),
            "UV_PYTHON_INSTALL_DIR": str(tmp_path / "uv"),
        }
        command = [ROOT / ".ci" / "find-python", *versions]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    return find_version


def test_the_faster_of_two_builds_of_a_version_is_found(install: Callable[..., Path], find: Find) -> None:
    install("path/python3.12", SLOW)
    fast = install("pyenv/versions/3.12.4/bin/python3.12", FAST)
    assert find("3.12") == str(fast)


def test_the_newest_of_equally_fast_versions_is_found(install: Callable[..., Path], find: Find) -> None:
    install("path/python3.11", FAST)
    install("path/python3.12", FAST)
    newest = install("uv/cpython-3.13.1-linux/bin/python3.13", FAST * 6 // 5)
    assert find() == str(newest)


def test_a_clearly_faster_older_version_is_found(install: Callable[..., Path], find: Find) -> None:
    install("path/python3.13", SLOW)
    install("path/python3.11", FAST)
    assert find() == "python3.11"


def test_the_first_named_version_is_found_although_another_is_faster(install: Callable[..., Path], find: Find) -> None:
    install("path/python3.11", SLOW)
    install("path/python3.13", FAST)
    assert find("3.11", "3.13") == "python3.11"


def test_an_interpreter_that_fails_is_skipped(install: Callable[..., Path], find: Find) -> None:
    install("path/python3.12", None)
    install("path/python3.13", None)
    usable = install("uv/cpython-3.12.9-linux/bin/python3.12", FAST)
    assert find("3.13", "3.12") == str(usable)
    assert find("3.99") == ""
