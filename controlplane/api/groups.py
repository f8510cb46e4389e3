"""Consumer groups and ACLs."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, reads, writes
from controlplane.selectors import acls, groups
from controlplane.services import acls as acl_services
from controlplane.services import groups as group_services


class Groups(Door):
    @reads(shapes.page_of(groups.GroupRow), shapes.GroupQuery)
    def get(self, request: Request) -> Response:
        return out(groups.group_list(**self.listing(shapes.GroupQuery, "group_id")))


class Group(Door):
    @reads(shapes.shape(groups.GroupDetail))
    def get(self, request: Request, group_id: str) -> Response:
        return out(found(groups.group_detail(group_id), f"group {group_id!r}"))

    @writes(shapes.Reason, None, 204)
    def delete(self, request: Request, group_id: str) -> Response:
        """Delete an empty group with its offsets. 202: the cluster did not answer in time, the outcome is unknown."""
        found(groups.group_detail(group_id), f"group {group_id!r}")
        outcome = group_services.delete_group(group_id, who=self.who, why=self.body(shapes.Reason)["why"])
        return Response(status=204 if outcome == "confirmed" else 202)


class Acls(Door):
    @reads(shapes.page_of(acls.AclRow), shapes.ListQuery)
    def get(self, request: Request) -> Response:
        return out(acls.acl_list(**self.listing(shapes.ListQuery, "resource_name")))

    @writes(shapes.AclCreate, shapes.shape(acls.AclRow), 201)
    def post(self, request: Request) -> Response:
        """Store a binding. Brokers enforce it where authorizer.class.name is set."""
        row = acl_services.create_acl(who=self.who, **self.body(shapes.AclCreate))
        return out(acls.acl_shape(row), 201)


class Acl(Door):
    @writes(shapes.Reason, None, 204)
    def delete(self, request: Request, acl_id: int) -> Response:
        acl_services.delete_acl(acl_id, who=self.who, why=self.body(shapes.Reason)["why"])
        return Response(status=204)
