"""The page of this cluster and the others of the settings."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language, gettext

from console import cluster_cells
from console.panels import lazy
from console.texts import gettext_lazy
from console.views.shell import render_page, viewer_required
from console.vocabulary import phrase_text
from controlplane.domain.cluster_health import HealthReason, reason_phrase
from controlplane.domain.other_cluster import ClusterMetrics, ClusterProblem
from controlplane.selectors.other_clusters import ClusterRow, cluster_rows
from controlplane.selectors.overview import overview, overview_shape

PROBLEMS = {
    ClusterProblem.NOT_READ: gettext_lazy("not read yet"),
    ClusterProblem.NO_CONNECTION: gettext_lazy("no connection"),
    ClusterProblem.TIMEOUT: gettext_lazy("no response in time"),
    ClusterProblem.CERTIFICATE: gettext_lazy("the TLS certificate is not accepted"),
    ClusterProblem.NOT_PERMITTED: gettext_lazy("the API token is not accepted"),
    ClusterProblem.HTTP_STATUS: gettext_lazy("the console responded with an error"),
    ClusterProblem.BAD_RESPONSE: gettext_lazy("the response is not that of a Weir console"),
    ClusterProblem.OLD: gettext_lazy("the cluster monitor of this console has read nothing for a minute"),
}


@viewer_required
def cluster_list(request: HttpRequest) -> HttpResponse:
    return render_page(request, "console/clusters.html", {"clusters": lazy(_rows)})


def _rows() -> list[tuple[ClusterRow, str, str]]:
    """Return (cluster, cause of its problem or "", reason of its health)."""
    own = overview()
    found = []
    for row in cluster_rows(own):
        cause = "" if row.is_current else gettext(str(PROBLEMS[ClusterProblem(row.problem)]))
        reason = _reason(row.metrics) if row.url else cluster_cells.health_reason(overview_shape(own))
        found.append((row, cause, reason))
    return found


def _reason(metrics: ClusterMetrics | None) -> str:
    """The reason that another console reports. If it is an alert, or unknown to this version, it is English only."""
    if metrics is None:
        return ""
    try:
        return phrase_text(reason_phrase(HealthReason(metrics.reason_code), metrics.reason_values))
    except (ValueError, KeyError):
        return metrics.reason if (get_language() or "en") == "en" else ""
