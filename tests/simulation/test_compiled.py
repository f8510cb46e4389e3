"""The compiled request path gives the same runs as the Python sources: equal fingerprints, events and acknowledged writes for the same seeds.

`make simulate ARGS=--compiled` runs other seeds.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from brokerd.compiled.importer import compiled_directory, is_current
from brokerd.wire.compile import has_compiler

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 600


def runs(*options: str) -> list[str]:
    """One line per seed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--n", "1", "--fingerprints", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return [line for line in done.stdout.splitlines() if line.startswith("seed ")]


@pytest.fixture(autouse=True)
def modules() -> None:
    if not is_current(compiled_directory()):
        if not has_compiler():
            pytest.skip("no C compiler")
        pytest.fail("the modules of these sources are not compiled: make compile")


@pytest.mark.parametrize(
    "worlds",
    [
        (),
        ("--transactions",),
        ("--tiered-tails",),
        ("--halves",),
        ("--half-changes",),
        ("--delays",),
        ("--shares",),
        ("--share-changes",),
    ],
)
def test_a_seed_gives_the_same_run_with_compiled_modules(worlds: tuple[str, ...]) -> None:
    source = runs(*worlds)
    assert len(source) == 1 and runs("--compiled", *worlds) == source


def test_the_modules_are_imported_from_their_library() -> None:
    program = (
        "from brokerd.compiled import importer; assert importer.install()\n"
        "import brokerd.runtime.broker, sys\n"
        "files = [sys.modules[m].__file__ for m in importer.MODULES if m in sys.modules]\n"
        "assert len(files) > 50 and all(f.endswith('.so') for f in files), files"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=SECONDS_MAX)
