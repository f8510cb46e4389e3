"""Reads the file of other Weir consoles (WEIR_CLUSTERS_FILE) at the start of a process. Does not contain: its meaning (`controlplane.domain.other_cluster`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml
from django.core.exceptions import ImproperlyConfigured

from controlplane.domain.other_cluster import OtherConsole, parse_consoles
from weir.variable_kinds import CLUSTER_COLOURS


def read_consoles(path: Path | None) -> tuple[OtherConsole, ...]:
    """Raises ImproperlyConfigured with the file and the reason."""
    if path is None:
        return ()
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        return tuple(_with_token(console) for console in parse_consoles(entries or [], CLUSTER_COLOURS, path.parent))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ImproperlyConfigured(f"WEIR_CLUSTERS_FILE {path} cannot be used. {error}") from error


def _with_token(console: OtherConsole) -> OtherConsole:
    if not console.token.startswith("@"):
        return console
    token = Path(console.token[1:]).read_text(encoding="utf-8").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise ValueError(f"The token_file of {console.name} has no API token.")
    return replace(console, token=token)
