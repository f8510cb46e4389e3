"""The wheel is complete: an installation without the checkout has pages, styles and commands."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cluster.local import ROOT


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "-w",
        str(folder),
    ]
    subprocess.run([*build, str(ROOT)], check=True, timeout=500)
    wheel = next(Path(folder).glob("weir-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        entry_points = archive.read(next(n for n in archive.namelist() if n.endswith("entry_points.txt"))).decode()
        assert "weir = weir.__main__:main" in entry_points and "brokerd = brokerd.__main__:console_main" in entry_points
        return set(archive.namelist())


def test_it_contains_all_pages_and_static_files(names: set[str]) -> None:
    files = [p.relative_to(ROOT) for top in ("templates", "static") for p in (ROOT / top).rglob("*") if p.is_file()]
    assert len(files) > 50
    assert [str(f) for f in files if f"weir/{f}" not in names] == []


def test_it_contains_all_runbooks(names: set[str]) -> None:
    folder = ROOT / "docs" / "runbooks"
    runbooks = [str(p.relative_to(folder)) for p in folder.rglob("*.md")]
    assert len(runbooks) > 60
    assert [name for name in runbooks if f"weir/runbooks/{name}" not in names] == []


def test_it_contains_the_files_of_a_deployment(names: set[str]) -> None:
    files = [p.relative_to(ROOT) for p in (ROOT / "deploy").rglob("*") if p.is_file()]
    assert len(files) > 15
    assert [str(f) for f in files if f"weir/{f}" not in names] == []


def test_it_contains_all_modules_and_no_test(names: set[str]) -> None:
    tops = ("brokerd", "controlplane", "console", "pipeline", "weir", "weir_common")
    modules = [p.relative_to(ROOT) for top in tops for p in (ROOT / top).rglob("*.py")]
    assert [str(m) for m in modules if str(m) not in names] == []
    assert not [n for n in names if n.startswith(("tests/", "bench/"))]
