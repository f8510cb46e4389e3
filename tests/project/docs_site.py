"""Renders the documents with mkdocs, strictly: `python -m tests.project.docs_site OUTPUT`. A broken link or anchor is an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.cluster.local import ROOT


def build(output: Path, added: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Copy the documents of the root and of docs/ into one directory, as mkdocs needs it, and render them into `output`. `added`: name and
    text of further pages."""
    with tempfile.TemporaryDirectory(prefix="docs-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        for page in [*ROOT.glob("*.md"), ROOT / "LICENSE"]:
            shutil.copy(page, source)
        shutil.copytree(ROOT / "docs", source / "docs")
        for name, text in (added or {}).items():
            (source / name).write_text(text)
        config = Path(folder) / "mkdocs.yml"
        settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
        config.write_text(yaml.safe_dump(settings | {"docs_dir": str(source)}))
        command = [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "-f",
            str(config),
            "-d",
            str(output.resolve()),
        ]
        # The theme prints an advertisement otherwise.
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


if __name__ == "__main__":
    done = build(Path(sys.argv[1]))
    print(done.stdout + done.stderr, end="", file=sys.stderr)
    raise SystemExit(done.returncode)
