"""The catalogue of the lake: SQLite or PostgreSQL through pyiceberg's SQL catalogue, or a REST catalogue.

Invariant: a password is part of the URL in the environment, never of a command line. pyiceberg is loaded on first
use. Does not contain: tables.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from weir_common.lake import METRICS_NAMESPACE, NAMESPACE

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

URL_VARIABLE, WAREHOUSE_VARIABLE, OPTIONS_VARIABLE = "WEIR_LAKE_CATALOG", "WEIR_LAKE_WAREHOUSE", "WEIR_LAKE_OPTIONS"

SQL_DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg", "sqlite": "sqlite"}


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """`url`: of the catalogue. `warehouse`: a folder or s3://bucket/path. `options`: more properties of pyiceberg, such as s3.endpoint. Picklable,
    because Spark's tasks open the catalogue too."""

    url: str = field(repr=False)
    warehouse: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @staticmethod
    def of_folder(folder: Path) -> LakeSettings:
        """A lake of one machine: the catalogue is an SQLite file next to the tables."""
        return LakeSettings(f"sqlite:///{folder.resolve()}/catalog.db", str(folder.resolve()))

    @staticmethod
    def of_environment(folder: Path, environment: Mapping[str, str] = os.environ) -> LakeSettings:
        """The settings of the environment; where they are absent, those of a lake in `folder`. Raises ValueError."""
        default = LakeSettings.of_folder(folder)
        options = []
        for part in filter(None, (p.strip() for p in environment.get(OPTIONS_VARIABLE, "").split(","))):
            name, separator, value = part.partition("=")
            if not separator:
                raise ValueError(f"{OPTIONS_VARIABLE}: {part!r} is not name=value")
            options.append((name.strip(), value.strip()))
        return LakeSettings(
            environment.get(URL_VARIABLE) or default.url,
            environment.get(WAREHOUSE_VARIABLE) or default.warehouse,
            tuple(options),
        )

    def properties(self) -> dict[str, str]:
        """The properties of pyiceberg. Raises ValueError for an unknown kind of URL."""
        scheme = urlsplit(self.url).scheme
        warehouse = self.warehouse if "://" in self.warehouse else f"file://{Path(self.warehouse).resolve()}"
        shared = {"warehouse": warehouse, **dict(self.options)}
        if scheme in ("http", "https"):
            return {"type": "rest", "uri": self.url, **shared}
        if scheme not in SQL_DRIVERS:
            raise ValueError(
                f"the catalogue URL begins with {scheme!r}; allowed are sqlite, postgresql, http and https"
            )
        return {"type": "sql", "uri": SQL_DRIVERS[scheme] + self.url[len(scheme) :], **shared}

    def open(self) -> Catalog:
        """The catalogue, one per process. Creates the namespaces of the lake, and the folder of an SQLite catalogue."""
        return _open(self)


@lru_cache(maxsize=4)
def _open(settings: LakeSettings) -> Catalog:
    properties = settings.properties()
    if properties["uri"].startswith("sqlite:///"):
        Path(properties["uri"].removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    # Loaded on first use: the import takes a second, which processes without a lake need not wait for.
    catalog: Catalog = importlib.import_module("pyiceberg.catalog").load_catalog("weir", **properties)
    for namespace in (NAMESPACE, METRICS_NAMESPACE):
        try:
            catalog.create_namespace_if_not_exists(namespace)
        except importlib.import_module("pyiceberg.exceptions").NamespaceAlreadyExistsError:
            pass  # another process was faster
    return catalog
