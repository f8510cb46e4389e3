"""Transactions: list, one transactional id, and the search for transactions that hang in a partition. Requests to end one are approval requests."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.texts import gettext_lazy
from console.views.shell import list_options, not_found, render_page, viewer_required
from controlplane.domain.transactions import ALL_OPEN, CoordinatorState
from controlplane.selectors import hanging_transactions
from controlplane.selectors import transactions as selectors

RARE_STATES = (CoordinatorState.EMPTY, CoordinatorState.DEAD, CoordinatorState.PREPARE_EPOCH_FENCE)
"""States without a filter of their own."""
STATES = (
    ("", gettext_lazy("All")),
    (ALL_OPEN, gettext_lazy("Open")),
    *((s.value, gettext_lazy(s.value)) for s in CoordinatorState if s not in RARE_STATES),
)
MINUTES_DIGITS_MAX = 6
DEFAULT_SORT = "transactional_id"


@viewer_required
def transaction_list(request: HttpRequest) -> HttpResponse:
    query, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    state = state if state in dict(STATES) else ""
    minutes = request.GET.get("minutes", "").strip()
    minutes = minutes if minutes.isascii() and minutes.isdigit() and len(minutes) <= MINUTES_DIGITS_MAX else ""
    found = selectors.transaction_list(
        query=query,
        state=state,
        open_longer_minutes=int(minutes) if minutes else None,
        **list_options(request, DEFAULT_SORT),
    )
    context = {"page": found, "found": found, "q": query, "state": state, "minutes": minutes, "states": STATES}
    return render_page(request, "console/transactions.html", context, nav="transactions")


@viewer_required
def transaction(request: HttpRequest, transactional_id: str) -> HttpResponse:
    found = selectors.transaction(transactional_id)
    if found.row is None and not found.brokers_silent and not found.offline_partitions:
        return not_found(
            request,
            _("transactional id “{transactional_id}”").format(transactional_id=transactional_id),
            "transactions",
            nav="transactions",
        )
    row = found.row
    context = {
        "t": row,
        "found": found,
        "transactional_id": transactional_id,
        "fence_url": _propose("transaction.fence", transactional_id),
        "ongoing": row is not None and row.state == CoordinatorState.ONGOING,
    }
    return render_page(request, "console/transaction.html", context, nav="transactions")


@viewer_required
def hanging(request: HttpRequest) -> HttpResponse:
    """The form, and the result of a search for the topic that it names. `all`: a search in all topics."""
    topic, everything = request.GET.get("topic", "").strip(), bool(request.GET.get("all"))
    found = hanging_transactions.search(topic) if topic or everything else None
    rows = [] if found is None else [(r, _propose("transaction.abort", r.target)) for r in found.rows]
    context = {"found": found, "rows": rows, "topic": topic, "everything": everything}
    return render_page(request, "console/hanging_transactions.html", context, nav="transactions")


def _propose(kind: str, target: str) -> str:
    """The page that requests the approval of this operation."""
    return f"{reverse('proposal-new')}?{urlencode({'kind': kind, 'target': target})}"
