"""Compiled modules are used only if they were compiled from exactly the present sources."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from brokerd.compiled import importer
from brokerd.compiled.importer import CompiledModuleFinder, is_current, module_path, source_digest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for package in importer.PACKAGES:
        (tmp_path / package / "inner").mkdir(parents=True)
        (tmp_path / package / "inner" / "a.py").write_text("A = 1\n")
    return tmp_path


def test_the_digest_changes_with_each_source_and_each_name(root: Path) -> None:
    digests = [source_digest(root)]
    (root / "weir_common" / "inner" / "a.py").write_text("A = 2\n")
    digests.append(source_digest(root))
    (root / "brokerd" / "inner" / "a.py").rename(root / "brokerd" / "inner" / "b.py")
    digests.append(source_digest(root))
    (root / "brokerd" / "c.py").write_text("")
    digests.append(source_digest(root))
    (root / "brokerd" / "c.txt").write_text("not a source")
    assert len({*digests}) == 4 and source_digest(root) == digests[-1]


def test_modules_of_other_sources_and_a_missing_directory_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "compiled_directory", lambda: tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    assert not is_current(tmp_path / "missing") and not importer.install()
    (tmp_path / importer.DIGEST_FILE).write_text("0" * 64)
    assert not is_current(tmp_path) and not importer.install() and not importer.is_installed()
    (tmp_path / importer.DIGEST_FILE).write_text(source_digest())
    assert is_current(tmp_path) and importer.install() and importer.is_installed()


def test_only_compiled_modules_are_found(tmp_path: Path) -> None:
    finder = CompiledModuleFinder(tmp_path)
    spec = finder.find_spec("brokerd.storage.log", None)
    assert spec is not None and spec.origin == str(module_path(tmp_path, "brokerd.storage.log"))
    for other in ("brokerd", "brokerd.storage", "brokerd.net.loop", "log"):
        assert finder.find_spec(other, None) is None
