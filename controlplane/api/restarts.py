"""Rolling restarts, and proposals to rebalance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, reads, writes
from controlplane.selectors import restarts
from controlplane.services import rebalancing, restarting

ACTS: dict[str, Callable[..., Any]] = {
    "pause": restarting.pause_restart,
    "resume": restarting.resume_restart,
    "cancel": restarting.cancel_restart,
}


class Restarts(Door):
    @reads(shapes.page_of(restarts.RestartRow), shapes.ListQuery)
    def get(self, request: Request) -> Response:
        v = self.read(shapes.ListQuery)
        return out(restarts.restart_list(page=v["page"], per_page=v["per_page"]))

    @writes(shapes.RestartCreate, shapes.shape(restarts.RestartRow), 201)
    def post(self, request: Request) -> Response:
        """Restart brokers one after the other, each when every partition can do without it."""
        v = self.body(shapes.RestartCreate)
        row = restarting.start_restart(v["brokers"], who=self.who, why=v["why"])
        return out(restarts.restart_row(row.pk), 201)


class Restart(Door):
    @reads(shapes.shape(restarts.RestartRow))
    def get(self, request: Request, restart_id: int) -> Response:
        return out(found(restarts.restart_row(restart_id), f"rolling restart {restart_id}"))


class RestartAct(Door):
    @writes(shapes.Why, shapes.shape(restarts.RestartRow))
    def post(self, request: Request, restart_id: int, act: str) -> Response:
        """`act`: pause, resume or cancel."""
        found(restarts.restart_row(restart_id), f"rolling restart {restart_id}")
        found(ACTS.get(act), f"act {act!r}; use {', '.join(ACTS)}")(
            restart_id, who=self.who, why=self.body(shapes.Why)["why"]
        )
        return out(restarts.restart_row(restart_id))


class Rebalance(Door):
    @writes(shapes.ProposalAsk, shapes.shape(rebalancing.Proposed))
    def post(self, request: Request) -> Response:
        """What would spread the cluster better, by goals; nothing is written. `scope` is that of the move that does it."""
        return out(rebalancing.proposed(**self.body(shapes.ProposalAsk)))
