"""`weir configure`: the folder of each machine, and nothing for an invalid inventory."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.unit.weir.deployment.test_inventory import EXAMPLE
from weir.deployment.command import main
from weir.deployment.inventory import PLACEHOLDER


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(EXAMPLE.replace(PLACEHOLDER, "secret"))
    return path


def test_each_machine_has_a_folder(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main([str(file), "--to", str(out)]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["a", "b", "c"]
    mode = (out / "b" / "etc" / "weir" / "weir.env").stat().st_mode
    assert stat.S_IMODE(mode) == 0o640 & stat.S_IMODE(mode) and not stat.S_IMODE(mode) & 0o007
    assert "starts weir-zookeeper.service weir-broker.service" in capsys.readouterr().out
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    (out / "b" / "notes").write_text("mine")
    assert main([str(file), "--to", str(out)]) == 0
    assert {p: p.read_bytes() for p in before} == before and (out / "b" / "notes").read_text() == "mine"


@pytest.mark.parametrize("text", [EXAMPLE, "[machines"])
def test_nothing_is_written_for_an_invalid_inventory(
    text: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert main([str(file), "--to", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.startswith("error: ") and not (tmp_path / "out").exists()


def test_a_missing_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.toml"), "--to", str(tmp_path)]) == 1
    assert "none.toml" in capsys.readouterr().err


def test_the_example_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--example"]) == 0
    assert capsys.readouterr().out == EXAMPLE


def test_missing_arguments_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "--to FOLDER" in capsys.readouterr().err
