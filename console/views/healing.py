"""Self-healing: actions with their switches and their runs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.texts import gettext_lazy
from console.views.health import NAV, SCORED
from console.views.shell import (
    actor,
    flash,
    not_found,
    operator_required,
    page_number,
    redirect_to,
    render_page,
    viewer_required,
)
from controlplane.domain.healing import HealingMode
from controlplane.selectors import healing as selectors
from controlplane.services import healing as services

MODES = {
    HealingMode.OFF: gettext_lazy("Turn off"),
    HealingMode.DRY_RUN: gettext_lazy("Dry run"),
    HealingMode.ON: gettext_lazy("Turn on"),
}


@viewer_required
def healing_page(request: HttpRequest) -> HttpResponse:
    rows = [
        (a, [(mode, label) for mode, label in MODES.items() if mode != a.mode]) for a in selectors.healing_actions()
    ]
    context = {
        "rows": rows,
        "page": selectors.healing_runs(page=page_number(request)),
        "tab": "healing",
        "scored": SCORED,
        "body": {"mode": "dry_run", "cool_down_s": 900, "per_hour": 2, "comment": "COMMENT"},
    }
    return render_page(request, "console/healing.html", context, nav=NAV)


@operator_required
def switch(request: HttpRequest, action: str, mode: str) -> HttpResponse:
    if selectors.healing_action(action) is None or mode not in list(HealingMode):
        return not_found(request, _("self-healing action “{action}”").format(action=action), "healing", nav=NAV)
    if request.method == "POST":
        services.alter_action(action, mode, None, None, actor=actor(request))
        flash(
            request,
            _("Self-healing: {value} is set to {value_2}.").format(
                value=action.replace("_", " "), value_2=mode.replace("_", " ")
            ),
        )
    return redirect_to("healing")
