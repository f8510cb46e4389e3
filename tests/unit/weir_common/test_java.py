"""One function finds the Java for ZooKeeper and Spark, with a fixed order of places."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from weir_common import java


def write_java_program(home: Path, version: str) -> Path:
    """A program that prints its version on stderr, like Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def machine_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java. Its directory for programs is in PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:/bin")
    monkeypatch.setattr(
        java.shutil, "which", lambda name: found if Path(found := str(tmp_path / "path/bin/java")).exists() else None
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return tmp_path


def test_without_java_the_error_has_a_remedy(machine_without_java: Path) -> None:
    with pytest.raises(java.JavaMissing, match=r"searched: nothing.*JAVA_HOME"):
        java.find_java()


def test_java_home_takes_precedence_over_path(machine_without_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_path = write_java_program(machine_without_java / "path", "17.0.9")
    assert java.find_java() == in_path
    preferred = write_java_program(machine_without_java / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine_without_java / "home"))
    assert java.find_java() == preferred and java.java_home() == machine_without_java / "home"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "unknown"])
def test_an_older_java_is_not_used(machine_without_java: Path, version: str) -> None:
    program = write_java_program(machine_without_java / "path", version)
    with pytest.raises(java.JavaMissing, match=str(program)):
        java.find_java()


def test_a_java_home_without_java_leaves_the_one_in_path(
    machine_without_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine_without_java / "empty"))
    in_path = write_java_program(machine_without_java / "path", "17.0.9")
    assert java.find_java() == in_path
