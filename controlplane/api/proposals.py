"""What one operator proposes and another approves."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, reads, writes
from controlplane.selectors import proposals
from controlplane.services import proposals as services


class Proposals(Door):
    @reads(shapes.page_of(proposals.ProposalRow), shapes.ProposalQuery)
    def get(self, request: Request) -> Response:
        return out(proposals.proposal_list(self.who, **self.listing(shapes.ProposalQuery, "-id")))

    @writes(shapes.ProposalCreate, shapes.shape(proposals.ProposalRow), 201)
    def post(self, request: Request) -> Response:
        """Propose to override a safety refusal. Nothing happens before another operator approves."""
        row = services.propose(who=self.who, **self.body(shapes.ProposalCreate))
        return out(proposals.proposal_row(row.pk, self.who), 201)


class Proposal(Door):
    @reads(shapes.shape(proposals.ProposalRow))
    def get(self, request: Request, proposal_id: int) -> Response:
        return out(found(proposals.proposal_row(proposal_id, self.who), f"proposal {proposal_id}"))


class ProposalApprove(Door):
    @writes(shapes.Why, shapes.shape(proposals.ProposalRow))
    def post(self, request: Request, proposal_id: int) -> Response:
        """The second person's word; the act is carried out at once, `state` and `detail` say how it ended."""
        found(proposals.proposal_row(proposal_id, self.who), f"proposal {proposal_id}")
        services.approve(proposal_id, who=self.who, why=self.body(shapes.Why)["why"])
        return out(proposals.proposal_row(proposal_id, self.who))


class ProposalReject(Door):
    @writes(shapes.Reason, shapes.shape(proposals.ProposalRow))
    def post(self, request: Request, proposal_id: int) -> Response:
        """Say no; its own author withdraws it."""
        found(proposals.proposal_row(proposal_id, self.who), f"proposal {proposal_id}")
        services.reject(proposal_id, who=self.who, why=self.body(shapes.Reason)["why"])
        return out(proposals.proposal_row(proposal_id, self.who))
