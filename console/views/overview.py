"""The first page: is it well, and if not, what is it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from console.views.shell import page, signed_in
from controlplane.selectors import brokers, changes, console_history, groups, moves, partitions

SHOWN = 8
"""Rows of each panel; a link leads to all of them and says how many."""


@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    return page(
        request,
        "console/overview.html",
        {
            "brokers": brokers.broker_list(),
            "problems": partitions.in_trouble(SHOWN),
            "lagging": groups.group_list(sort="-lag_records", per_page=SHOWN),
            "moves": moves.move_list(working=True, per_page=SHOWN),
            "changes": changes.change_list(per_page=SHOWN),
            "rate": console_history.series("cluster", "records_per_s"),
            "lag": console_history.series("cluster", "lag_records"),
        },
        nav="overview",
    )
