"""A file that is replaced has the old content or the new one, with the permissions that were requested."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from weir_common import files


def test_a_replaced_file_has_the_new_text_and_no_temporary_file_remains(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for text in ("one", "two, longer", ""):
        files.replace_text(path, text)
        assert path.read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_a_failed_replacement_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    files.replace_text(path, "old")

    def raise_no_space(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", raise_no_space)
    with pytest.raises(OSError, match="No space"):
        files.replace_text(path, "new")
    assert path.read_text() == "old"


def test_a_private_file_is_private_also_after_an_interrupted_write(tmp_path: Path) -> None:
    """A temporary file that a crash left has the permissions of its creation, which os.open does not change."""
    path = tmp_path / "secret"
    left = tmp_path / "secret.tmp"
    left.write_text("half")
    left.chmod(0o644)
    files.write_private(path, "whole")
    assert path.read_text() == "whole" and stat.S_IMODE(path.stat().st_mode) == 0o600
