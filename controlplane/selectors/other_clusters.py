"""This cluster and the other clusters of the settings, with the last responses of their consoles. One query of rows, and no request to a console."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from controlplane.domain.other_cluster import ClusterMetrics, ClusterProblem, problem_now
from controlplane.models import OtherCluster
from controlplane.selectors.common import age_s
from controlplane.selectors.overview import Overview


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """`problem`: none, or why the values are not current. `detail` explains it in English. `metrics`: of the last response, `response_age_s` ago; None: there is
    none. `url` "": this cluster."""

    name: str
    url: str
    colour: str
    problem: str
    detail: str
    metrics: ClusterMetrics | None
    answered_at: datetime | None
    response_age_s: float | None

    @property
    def is_current(self) -> bool:
        return self.problem == ClusterProblem.NONE


@dataclass(frozen=True, slots=True)
class ClusterLink:
    """One line of the menu in the top bar."""

    name: str
    url: str
    colour: str


def cluster_links() -> list[ClusterLink]:
    """Return the other clusters from the settings only, without their values."""
    return [ClusterLink(c.name, c.url, c.colour) for c in settings.OTHER_CONSOLES]


def cluster_rows(overview: Overview) -> list[ClusterRow]:
    """This cluster first, then the others in the order of the settings."""
    known = {row.name: row for row in OtherCluster.objects.all()} if settings.OTHER_CONSOLES else {}
    found = [_own_row(overview)]
    for console in settings.OTHER_CONSOLES:
        row = known.get(console.name)
        if row is None or row.url != console.url:
            found.append(
                ClusterRow(
                    console.name, console.url, console.colour, ClusterProblem.NOT_READ.value, "", None, None, None
                )
            )
            continue
        # A monitor that has stopped sends no requests: then the last request is old, too.
        age = age_s(row.answered_at)
        problem = problem_now(ClusterProblem(row.problem), age)
        metrics = None if row.metrics is None else ClusterMetrics(**row.metrics)
        found.append(
            ClusterRow(
                console.name, console.url, console.colour, problem.value, row.detail, metrics, row.answered_at, age
            )
        )
    return found


def _own_row(overview_row: Overview) -> ClusterRow:
    metrics = ClusterMetrics(
        overview_row.cluster_name,
        overview_row.health.word,
        overview_row.health.reason,
        overview_row.brokers_alive,
        overview_row.brokers_total,
        overview_row.under_replicated,
        overview_row.offline,
        overview_row.alerts_at_risk,
        overview_row.alerts - overview_row.alerts_at_risk,
        overview_row.age_s,
        overview_row.health.reason_code,
        overview_row.health.reason_values,
    )
    colour = settings.WEIR.cluster_colour
    return ClusterRow(
        overview_row.cluster_name,
        "",
        colour,
        ClusterProblem.NONE.value,
        "",
        metrics,
        overview_row.observed_at,
        overview_row.age_s,
    )
