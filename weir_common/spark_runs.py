"""Files between the control plane and a Spark driver: the description of a run and the phases in its status. Values only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

RUN_FILE, STATUS_FILE = "run.json", "status.json"


class Phase(StrEnum):
    """The phase of a driver, as it reports it."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


class Exit:
    """Exit codes of a driver."""

    OK = 0
    FAILED = 1
    """May succeed when it is started again."""
    REJECTED = 2
    """A restart fails again until an operator changes a parameter, the configuration or the data that contradicts the run."""


@dataclass(frozen=True, slots=True)
class RunDescription:
    """`name`: identifies the run in logs, snapshots and client IDs. `database`: SQLite file of the control plane; empty for the PostgreSQL database of
    WEIR_DATABASE_URL. Contains no password: `kafka_config` names the file with it, and the driver inherits the environment."""

    name: str
    kind: str
    parameters: dict[str, Any]
    bootstrap: str
    lake_folder: str
    kafka_config: str = ""
    master: str = "local[*]"
    driver_memory: str = "1g"
    database: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @staticmethod
    def parse(text: str) -> RunDescription:
        return RunDescription(**json.loads(text))
