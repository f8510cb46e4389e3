"""Small files that are replaced atomically: a reader sees the old content or the new one. Brokers write through `brokerd/storage/disk.py`."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace `path` by `text` atomically. `mode`: permissions, reduced by the umask. Raises OSError."""
    replace_bytes(path, text.encode(), mode=mode)


def replace_bytes(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace `path` by `data` atomically. `mode`: permissions, reduced by the umask. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)  # the mode below applies only to a file that is created
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "wb") as out:
        out.write(data)
    temporary.replace(path)


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically, with mode 600."""
    replace_text(path, text, mode=0o600)
