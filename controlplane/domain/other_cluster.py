"""Other Weir consoles: the list in a file, their values, and the reason why the values of a console are not current. Pure.

Invariant: a cluster whose console does not respond is never shown with the health of its last response. Does not contain: the requests
(`controlplane.clients.other_consoles`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CLUSTERS_MAX = 20
"""Maximum number of other consoles. Each causes one request per round, all at the same time, and is one line of the menu."""
NAME_CHARS_MAX = 60
"""Maximum length of a name: the top bar shows it without a line break."""
REASON_CODE_CHARS_MAX = 60
"""Maximum length of the code of a reason: an unknown one is not shown."""
STALE_S = 60.0
"""Age after which a response is no longer current: six rounds."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
KEYS = ("name", "url", "colour", "token", "token_file", "ca_file")


class ClusterProblem(StrEnum):
    """The reason why the values of a cluster are not current."""

    NONE = "none"
    NOT_READ = "not_read"
    NO_CONNECTION = "no_connection"
    TIMEOUT = "timeout"
    CERTIFICATE = "certificate"
    NOT_PERMITTED = "not_permitted"
    HTTP_STATUS = "http_status"
    BAD_RESPONSE = "bad_answer"  # the stored value
    OLD = "old"


@dataclass(frozen=True, slots=True)
class OtherConsole:
    """One entry of the file. `url`: without a slash at the end. `colour`: one of CLUSTER_COLOURS of the settings."""

    name: str
    url: str
    colour: str
    token: str
    ca_file: str

    def __repr__(self) -> str:
        return f"OtherConsole({self.name!r}, {self.url!r})"


@dataclass(frozen=True, slots=True)
class ClusterMetrics:
    """Metrics of a console's own overview. `health`: healthy, degraded, at_risk or unknown. `alerts_degraded`: open alerts that are not at risk. `age_s`: age
    of the values when the console answered; None: its monitor has never read the cluster. `reason_code`, `reason_values`: the reason of
    `health`, also an unknown one of a newer console; empty for an older console."""

    cluster_name: str
    health: str
    reason: str
    brokers_alive: int
    brokers_total: int
    under_replicated: int
    offline: int
    alerts_at_risk: int
    alerts_degraded: int
    age_s: float | None
    reason_code: str = ""
    reason_values: dict[str, int] = field(default_factory=dict)


def problem_now(problem: ClusterProblem, response_age_s: float | None) -> ClusterProblem:
    """The problem of a cluster whose last response has this age; None: it has never answered."""
    if problem != ClusterProblem.NONE:
        return problem
    if response_age_s is None:
        return ClusterProblem.NOT_READ
    return ClusterProblem.OLD if response_age_s > STALE_S else ClusterProblem.NONE


def metrics_of(overview: Any) -> ClusterMetrics:
    """Return the values in a response of `/api/v1/overview`. Raises ValueError if the response has another shape."""
    try:
        health = overview["health"]
        word = str(health["word"])
        if word not in ("healthy", "degraded", "at_risk", "unknown"):
            raise ValueError(word)
        alerts, at_risk = int(overview["alerts"]), int(overview["alerts_at_risk"])
        age = overview["age_s"]
        return ClusterMetrics(
            str(overview["cluster_name"])[:NAME_CHARS_MAX],
            word,
            str(health["reason"])[:300],
            int(overview["brokers_alive"]),
            int(overview["brokers_total"]),
            int(overview["under_replicated"]),
            int(overview["offline"]),
            at_risk,
            max(0, alerts - at_risk),
            None if age is None else float(age),
            str(health.get("reason_code", ""))[:REASON_CODE_CHARS_MAX],
            {str(name): int(value) for name, value in health.get("reason_values", {}).items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no overview of a cluster: {error!r}") from error


def parse_consoles(entries: object, colours: tuple[str, ...], folder: Path) -> tuple[OtherConsole, ...]:
    """The consoles of a file that was read. A relative `token_file` is next to the file, in `folder`; `token` of the result is then `@` and its path. Raises
    ValueError with a sentence."""
    if not isinstance(entries, list):
        raise ValueError("It must be a list of clusters, each with name, url, colour and token or token_file.")
    if len(entries) > CLUSTERS_MAX:
        raise ValueError(f"It has {len(entries)} clusters; {CLUSTERS_MAX} at most are possible.")
    found = tuple(_console(number, entry, colours, folder) for number, entry in enumerate(entries, 1))
    names = [console.name for console in found]
    if len(set(names)) < len(names):
        raise ValueError("Two clusters have the same name.")
    return found


def _console(number: int, entry: object, colours: tuple[str, ...], folder: Path) -> OtherConsole:
    if not isinstance(entry, Mapping):
        raise ValueError(f"Cluster {number} must have name, url, colour and token or token_file.")
    given = {str(key): str(value).strip() for key, value in entry.items() if value is not None}
    if unknown := sorted(set(given) - set(KEYS)):
        raise ValueError(f"Cluster {number} has unknown keys: {', '.join(unknown)}. Allowed: {', '.join(KEYS)}.")
    name, url, colour = given.get("name", ""), given.get("url", "").rstrip("/"), given.get("colour", "none")
    if not re.fullmatch(rf"[^\x00-\x1f]{{1,{NAME_CHARS_MAX}}}", name):
        raise ValueError(f"Cluster {number} needs a name of 1 to {NAME_CHARS_MAX} characters.")
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not is_safe or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(
            f"The url of {name} must begin with https:// (http:// only on this machine): its token is sent there."
        )
    if colour not in colours:
        raise ValueError(f"The colour of {name} is {colour!r}; allowed: {', '.join(colours)}.")
    token, token_file = given.get("token", ""), given.get("token_file", "")
    if bool(token) == bool(token_file):
        raise ValueError(f"{name} needs token or token_file, with an API token of the scope read.")
    ca_file = given.get("ca_file", "")
    return OtherConsole(name, url, colour, token or f"@{folder / token_file}", str(folder / ca_file) if ca_file else "")
