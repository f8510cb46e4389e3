"""The command `brokerd`: with `--interpreted` no compiled module is imported."""

from __future__ import annotations

import sys

import pytest

from brokerd import __main__ as command
from brokerd.runtime import process


@pytest.mark.parametrize(("options", "installed"), [([], 1), (["--interpreted"], 0)])
def test_compiled_modules_are_installed_before_the_broker_starts(
    monkeypatch: pytest.MonkeyPatch, options: list[str], installed: int
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(sys, "argv", ["brokerd", "--config", "x", *options])
    monkeypatch.setattr(command.importer, "install", lambda: calls.append("install"))
    monkeypatch.setattr(process, "main", lambda: calls.append("main"))
    with pytest.raises(SystemExit):
        command.console_main()
    assert calls == ["install"] * installed + ["main"]
