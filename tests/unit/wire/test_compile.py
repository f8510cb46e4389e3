"""The build of the compiled modules: what it reports, and what it leaves. `test_record_walk.py` and `test_key_walk.py` compare their results."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.wire import compile as compilation


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty source file in a directory of its own, with its C types."""
    path = tmp_path / "record_walk.py"
    path.write_text("")
    path.with_suffix(".pxd").write_text("")
    monkeypatch.setattr(compilation.record_walk, "__file__", str(path))
    return path


@pytest.mark.parametrize(("arguments", "status"), [([], 1), (["--optional"], 0)])
def test_a_failed_compilation_is_reported_and_leaves_no_file(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int
) -> None:
    monkeypatch.setattr(compilation, "SETUP", "raise SystemExit('no headers')")
    monkeypatch.setattr(compilation, "has_compiler", lambda: True)
    assert compilation.main(arguments) == status
    assert set(source.parent.iterdir()) == {source, source.with_suffix(".pxd")}
    assert "no headers" in capsys.readouterr().err


def test_a_machine_without_a_compiler_builds_nothing_during_setup(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    assert not compilation.has_compiler()
    assert compilation.main(["--optional"]) == 0
    assert set(source.parent.iterdir()) == {source, source.with_suffix(".pxd")}
    assert "no C compiler" in capsys.readouterr().err


def test_a_compiler_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", f"{compiler} -pthread")
    assert compilation.has_compiler()
