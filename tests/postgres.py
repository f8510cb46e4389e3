"""`python -m tests.postgres [arguments of pytest]`: the tests of the control plane on a temporary PostgreSQL server on loopback.

Invariant: other PostgreSQL servers of the machine are not used. PostgreSQL refuses to run as root: then it runs as the user `postgres`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.devcluster import free_base

TESTS = ("tests/unit/controlplane", "tests/unit/console")


def programs() -> Path:
    """The directory of initdb and pg_ctl, which Debian does not add to PATH."""
    found = shutil.which("pg_ctl")
    here = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not here:
        raise SystemExit("PostgreSQL was not found: apt install postgresql")
    return here[-1]


@contextmanager
def server() -> Iterator[str]:
    """Starts a server and yields the URL of its empty database. The server and its files are removed at the end."""
    folder, password, port = Path(tempfile.mkdtemp(prefix="weir-postgres-")), secrets.token_hex(8), free_base(1)
    data, word = folder / "data", folder / "password"
    word.write_text(password)
    as_whom = []
    if os.geteuid() == 0:
        as_whom = ["runuser", "-u", "postgres", "--"]
        for path in (folder, word):
            shutil.chown(path, "postgres")

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [*as_whom, str(programs() / program), *arguments], check=True, stdout=subprocess.DEVNULL, cwd=folder
        )

    try:
        run(
            "initdb",
            "-D",
            str(data),
            "-U",
            "weir",
            "-A",
            "scram-sha-256",
            f"--pwfile={word}",
            "-E",
            "UTF8",
            "--no-sync",
        )
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        run("pg_ctl", "-D", str(data), "-w", "-o", settings, "-l", str(folder / "log"), "start")
        try:
            yield f"postgres://weir:{password}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def main() -> int:
    arguments = sys.argv[1:] or [*TESTS, "-n", "2"]
    with server() as url:
        command = [sys.executable, "-m", "pytest", *arguments]
        return subprocess.run(command, env={**os.environ, "WEIR_DATABASE_URL": url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
