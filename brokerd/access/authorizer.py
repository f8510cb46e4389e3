"""The authoriser of a broker: the ACLs in force, and the judgement on each request.

Law: what the metadata log says counts from the next question on. Without `authorizer.class.name` everybody may do everything, and says so where asked. Called by `dispatch`
and `broker`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from brokerd.access import admin_guards, group_guards, guards, transaction_guards
from brokerd.access.acls import Acl, Acls, Operation, Resource
from brokerd.access.guards import FREE, Asked, Guard
from brokerd.cluster.image import Image
from brokerd.wire.apis import ApiKey

if TYPE_CHECKING:
    from brokerd.dispatch import Request

log = logging.getLogger(__name__)

RULES: dict[int, Guard] = {
    **guards.GUARDS, **admin_guards.GUARDS, **group_guards.GUARDS, **transaction_guards.GUARDS,
}  # fmt: skip
TELLS_OPERATIONS = {
    ApiKey.METADATA: ("include_topic_authorized_operations", "include_cluster_authorized_operations"),
    ApiKey.DESCRIBE_GROUPS: ("include_authorized_operations",),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("include_authorized_operations",),
    ApiKey.DESCRIBE_CLUSTER: ("include_cluster_authorized_operations",),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (),
}
"""By what of the request; () whenever it is asked."""


class Everything(Acls):
    """Of a broker without an authoriser."""

    def allowed(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        return True

    def allowed_anywhere(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        return True


class Authorizer:
    def __init__(self, settings: Mapping[str, Any], image: Callable[[], Image]) -> None:
        self.enabled = bool(settings["authorizer.class.name"])
        self._super_users = settings["super.users"]
        self._allow_if_none: bool = settings["allow.everyone.if.no.acl.found"]
        self._image = image
        self._acls: Acls | None = None if self.enabled else Everything()

    def changed(self) -> None:
        """The log has changed an ACL."""
        if self.enabled:
            self._acls = None

    def acls(self) -> Acls:
        if self._acls is None:
            found = []
            for key, (_, value) in self._image().access.get("acl", {}).items():
                try:
                    if value is not None:
                        found.append(Acl.from_json(value))
                except KeyError as e:
                    log.error("ACL %r is not understood (%s) and does not count", key, e)
            self._acls = Acls(found, self._super_users, self._allow_if_none)
        return self._acls

    def _topic_name(self, wanted: Any) -> str | None:
        """Of a topic id, or of a name: None when there is no such topic."""
        image = self._image()
        topic = image.topics.get(wanted) if isinstance(wanted, UUID) else image.topic_named(wanted)
        return topic.name if topic is not None else None

    def settled(self, request: Request) -> bool:
        """Judge a request. True when it has been answered; else its handler gets what is left of it."""
        key = request.header.api_key
        if not self.enabled:
            flags = TELLS_OPERATIONS.get(key)
            if flags is None or (flags and not any(getattr(request.body, flag) for flag in flags)):
                return False
        guard = RULES.get(key)
        if guard is None:
            if key in FREE:
                return False
            log.error("API %d has no rule of access: refused", key)
            request.close()
            return True
        return guard(Asked(request, self.acls, self._topic_name))
