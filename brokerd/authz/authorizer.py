"""The authorizer of a broker: the current ACLs, and which requests must be authorized.

Invariants: with an authorizer, a request whose handler has authorized nothing is not answered, except for APIs that need no permission. An ACL
in the metadata log applies to the next request. Does not contain: the resources and operations of each API (its handler).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from brokerd.authz.acls import AclEntry, Acls
from brokerd.cluster.access_values import InvalidAccessValue
from brokerd.cluster.configs import front_target
from brokerd.cluster.image import Image
from brokerd.net.request import Request
from brokerd.wire.apis import ApiKey

log = logging.getLogger(__name__)

OPTIONALLY_AUTHORIZED = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
"""APIs with requests that need no permission, as in Kafka. (Delegation token APIs reject every caller.)"""


class Authorizer:
    def __init__(self, settings: Mapping[str, Any], image: Callable[[], Image]) -> None:
        self.enabled = bool(settings["authorizer.class.name"])
        self._super_users = settings["super.users"]
        self._allow_if_none: bool = settings["allow.everyone.if.no.acl.found"]
        self._image = image
        self._acls: Acls | None = None

    def on_acls_changed(self) -> None:
        """Called after the metadata log changed an ACL."""
        self._acls = None

    def acls(self) -> Acls:
        if self._acls is None:
            found = []
            for key, (_, value) in self._image().access.get("acl", {}).items():
                try:
                    if value is not None:
                        found.append(AclEntry.from_json(value))
                except InvalidAccessValue as e:
                    log.error("invalid ACL ignored: acl=%r error=%s", key, e)
            self._acls = Acls(found, self._super_users, self._allow_if_none, self._front_target)
        return self._acls

    def _front_target(self, name: str) -> str:
        topic = self._image().topic_named(name)
        return front_target(topic.configs) if topic is not None else ""

    def require(self, request: Request) -> None:
        """The handler must authorize the request before it replies (`AuthHelper`)."""
        request.authorization_pending = self.enabled and request.header.api_key not in OPTIONALLY_AUTHORIZED
