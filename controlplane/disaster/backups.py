"""A backup: one directory with the database, the image of the metadata log, and a manifest with checksums.

Invariants: the log is read before the database, so a row may be newer than the log (the controller applies it again), never older.
A directory gets its final name after it is complete. A restore first verifies every checksum.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import record_from_json, record_to_json

FORMAT = 1
MANIFEST, METADATA = "manifest.json", "metadata.records.gz"
DATABASE_FILES = {"sqlite": "db.sqlite3", "postgresql": "database.pgdump"}
READ_BYTES = 1 << 20


class BadBackup(Exception):
    """The directory is not a complete backup that this version can use. The text says why."""


class LogPosition(TypedDict):
    """The last record of the metadata log in the backup: number, chain hash, controller epoch and metadata level."""

    seq: int
    hash: str
    epoch: int
    level: int


class FileChecksum(TypedDict):
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`files`: by name. `migrations`: {app: newest migration}."""

    created_at: str
    cluster_id: str
    metadata: LogPosition
    database: str
    migrations: dict[str, str]
    files: dict[str, FileChecksum] = field(default_factory=dict)
    format: int = FORMAT


# -- writing -------------------------------------------------------------------------------------------------------------
@contextmanager
def new_backup_folder(folder: Path) -> Iterator[Path]:
    """A temporary directory, renamed to `folder` on success. Raises BadBackup if `folder` is not empty."""
    if folder.exists() and any(folder.iterdir()):
        raise BadBackup(f"{folder} is not empty; give a new directory")
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(mode=0o700, parents=True)  # it contains password hashes and tokens
    yield partial
    for file in [*partial.iterdir(), partial]:
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    if folder.exists():
        folder.rmdir()
    partial.rename(folder)


def write_metadata(folder: Path, image: Image) -> None:
    """One record of the image per line, compressed; `zcat` prints it."""
    with gzip.open(folder / METADATA, "wt", encoding="utf-8") as out:
        for record in image.records():
            out.write(json.dumps(record_to_json(record), separators=(",", ":")) + "\n")


def write_database(folder: Path) -> None:
    """A consistent copy while others write: SQLite's online backup, or pg_dump. Raises BadBackup."""
    target = folder / DATABASE_FILES[connection.vendor]
    if connection.vendor == "postgresql":
        _postgres("pg_dump", "--format=custom", "--no-owner", f"--file={target}")
        return
    name = str(connection.settings_dict["NAME"])
    with closing(sqlite3.connect(f"file:{name}?mode=ro", uri=True)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        problem = copy.execute("PRAGMA integrity_check").fetchone()[0]
    if problem != "ok":
        raise BadBackup(f"the database is damaged: {problem}")


def write_manifest(folder: Path, image: Image) -> Manifest:
    metadata: LogPosition = {
        "seq": image.seq,
        "hash": image.chain_hash,
        "epoch": image.controller_epoch,
        "level": image.metadata_version,
    }
    files = {p.name: _metrics(p) for p in sorted(folder.iterdir())}
    migrations = newest_migrations()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(now, image.cluster_id, metadata, connection.vendor, migrations, files)
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2, sort_keys=True) + "\n")
    return manifest


def newest_migrations() -> dict[str, str]:
    out: dict[str, str] = {}
    for app, name in MigrationRecorder(connection).applied_migrations():
        out[app] = max(out.get(app, ""), name)
    return out


def _metrics(path: Path) -> FileChecksum:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
            size += len(data)
    return {"bytes": size, "sha256": digest.hexdigest()}


# -- reading -------------------------------------------------------------------------------------------------------------
def read_backup(folder: Path) -> tuple[Manifest, Image]:
    """The manifest and the image, after every check. Raises BadBackup, MetadataError."""
    path = folder / MANIFEST
    if not path.exists():
        raise BadBackup(f"{folder} contains no {MANIFEST}: it is not a backup, or an incomplete one")
    try:
        body = json.loads(path.read_text())
        if body["format"] != FORMAT:
            raise BadBackup(
                f"{folder} is a backup of format {body['format']}, this version reads format {FORMAT}; use the version that wrote it"
            )
        manifest = Manifest(**body)
    except (ValueError, KeyError, TypeError) as e:
        raise BadBackup(f"{path} is malformed: {e!r}") from e
    for name in (METADATA, DATABASE_FILES.get(manifest.database, "")):
        if name not in manifest.files:
            raise BadBackup(f"{folder}: the manifest has no checksum of {name or manifest.database}")
    for name, expected in manifest.files.items():
        if not (folder / name).is_file():
            raise BadBackup(f"{folder / name} is missing")
        if _metrics(folder / name) != expected:
            raise BadBackup(f"{folder / name} is damaged: its size or checksum differs from the manifest")
    with gzip.open(folder / METADATA, "rt", encoding="utf-8") as lines:
        records = (record_from_json(json.loads(line)) for line in lines)
        head = manifest.metadata
        image = Image.from_records(records, int(head["seq"]), str(head["hash"]), int(head["epoch"]))
    image.validate()
    if image.cluster_id != manifest.cluster_id or image.metadata_version != head["level"]:
        raise BadBackup(
            f"{folder}: the manifest and the records of the metadata log have different cluster ids or metadata levels"
        )
    return manifest, image


def restore_database(folder: Path, manifest: Manifest) -> Path | None:
    """Replace the database by the backup's. Returns the new path of the previous SQLite file. Raises BadBackup."""
    if manifest.database != connection.vendor:
        raise BadBackup(f"the backup is from {manifest.database}, but the database in use is {connection.vendor}")
    source = folder / DATABASE_FILES[manifest.database]
    connection.close()
    if connection.vendor == "postgresql":
        _postgres("pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", str(source))
        return None
    path = Path(str(connection.settings_dict["NAME"]))
    fresh = path.with_name(path.name + ".restoring")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old, closing(sqlite3.connect(fresh)) as new:
        old.backup(new)
    aside = None
    if path.exists():
        aside = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        with closing(sqlite3.connect(path)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path.rename(aside)
    for tail in ("-wal", "-shm"):
        path.with_name(path.name + tail).unlink(missing_ok=True)
    fresh.rename(path)
    return aside


def _postgres(program: str, *arguments: str) -> None:
    s = connection.settings_dict
    given = [f"--{o}={s[k]}" for o, k in (("host", "HOST"), ("port", "PORT"), ("username", "USER")) if s.get(k)]
    given.append(f"--dbname={s['NAME']}")
    environment = {**os.environ, **({"PGPASSWORD": s["PASSWORD"]} if s.get("PASSWORD") else {})}
    try:
        done = subprocess.run(
            [program, *given, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as e:
        raise BadBackup(f"{program} was not found; install PostgreSQL's client programs") from e
    if done.returncode != 0:
        raise BadBackup(f"{program} failed: {done.stderr.strip()[-500:]}")
