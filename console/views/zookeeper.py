"""The ZooKeeper ensemble: servers and sessions."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.texts import gettext_lazy
from console.views.shell import render_page, viewer_required
from controlplane.domain.zookeeper_server import ServerProblem
from controlplane.selectors import zookeeper as selectors

PROBLEMS = {
    ServerProblem.UNREACHABLE: gettext_lazy("unreachable"),
    ServerProblem.NOT_SERVING: gettext_lazy("not serving: no quorum"),
    ServerProblem.NOT_PERMITTED: gettext_lazy("unknown: srvr is not in 4lw.commands.whitelist"),
    ServerProblem.UNREADABLE: gettext_lazy("unknown: unreadable response"),
}


@viewer_required
def ensemble(request: HttpRequest) -> HttpResponse:
    found = selectors.ensemble()
    servers = [(s, PROBLEMS.get(ServerProblem(s.problem), "") if s.problem else "") for s in found.servers]
    return render_page(request, "console/zookeeper.html", {"found": found, "servers": servers}, nav="brokers")
