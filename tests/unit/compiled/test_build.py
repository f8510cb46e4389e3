"""The build of the compiled modules: what it reports, and what it leaves. `tests/simulation/test_compiled.py` compares their results."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.compiled import build
from brokerd.compiled.importer import DIGEST_FILE, source_digest
from brokerd.wire import compile as compilation


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with modules of an earlier source."""
    path = tmp_path / "modules"
    path.mkdir()
    (path / DIGEST_FILE).write_text("0" * 64)
    monkeypatch.setattr(build, "compiled_directory", lambda: path)
    return path


@pytest.mark.parametrize(("arguments", "status"), [([], 1), (["--optional"], 0)])
def test_a_failed_build_is_reported_and_replaces_nothing(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
) -> None:
    monkeypatch.setattr(build, "SETUP", "raise SystemExit('no headers')")
    monkeypatch.setattr(compilation, "has_compiler", lambda: True)
    assert build.main(arguments) == status
    assert "no headers" in capsys.readouterr().err
    assert [path.name for path in directory.parent.rglob("*")] == [directory.name, DIGEST_FILE]


def test_without_a_compiler_setup_builds_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compilation, "has_compiler", lambda: False)
    assert build.main(["--optional"]) == 0
    assert "no C compiler" in capsys.readouterr().err


def test_modules_of_the_present_sources_are_not_built_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / DIGEST_FILE).write_text(source_digest())
    monkeypatch.setattr(build, "SETUP", "raise SystemExit('no build is expected')")
    assert build.main([]) == 0
