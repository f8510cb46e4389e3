"""An empty database with all tables, made once per set of migrations, for the data directories of tests that start the control plane.

The migrations take about half of the CPU time in which a new console starts. Invariants: the copy is what `manage.py migrate` writes for the migrations
and the packages of this checkout; `migrate` still runs on it and has nothing to do. Does not contain: the database of the unit tests (pytest-django)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "databases"
NAME = "db.sqlite3"


def key() -> str:
    """A checksum of all that decides the tables: the migrations here, and those of the locked packages."""
    files = (ROOT / "requirements.lock", *sorted((ROOT / "controlplane" / "migrations").glob("*.py")))
    sums = [f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()[:16]


def put_into(folder: Path) -> None:
    """Copy the database into a new data directory. Several workers of a test run share it: the first one makes it, the others wait."""
    KEPT.mkdir(parents=True, exist_ok=True)
    made = KEPT / f"{key()}.sqlite3"
    with open(KEPT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make(made)
    shutil.copyfile(made, folder / NAME)
    (folder / NAME).chmod(0o600)


def _make(path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=ROOT,
            env={**environment, "WEIR_DATA_DIR": folder, "WEIR_SECRET_KEY": "only-for-migrations"},
            check=True,
            timeout=300,
        )
        os.replace(Path(folder) / NAME, path)
