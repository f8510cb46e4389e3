"""Rights of a user for an address of the console: whether its page may be opened, and the role that is missing to use it. Views check their own address, and
lists of buttons for the addresses that they lead to.

Invariant: the same rules decide here and when the address is requested. Does not contain: the rules (`console.access_rules`), the decision
(`controlplane.services.authorization`)."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.urls import ResolverMatch, resolve

from console import access_rules
from console.texts import gettext_lazy
from controlplane.selectors.visibility import current_visibility
from controlplane.services import authorization
from controlplane.services.common import READ_ONLY
from controlplane.services.request_resources import RequestNames

DENIED = gettext_lazy("Your account is a viewer. This operation needs the operator role (staff).")
User = AbstractBaseUser | AnonymousUser


def hidden(match: ResolverMatch | None, fields: Mapping[str, object], query: Mapping[str, str]) -> str:
    """Return the reason why the user of this request may not see the page; empty if the user may."""
    page = match.url_name or "" if match else ""
    rule = access_rules.VIEWS.get(page) or access_rules.RULES.get(page)
    return authorization.view_rejection(
        current_visibility(), rule, lambda: RequestNames(match.kwargs if match else {}, fields, query)
    )


def lacking_role(
    user: User, match: ResolverMatch | None, fields: Mapping[str, object], query: Mapping[str, str]
) -> str:
    """The role that the user lacks for a page; empty if none. A form that names no resource yet needs any role for its type."""
    if getattr(user, "is_staff", False):
        return ""
    rule = access_rules.RULES.get(match.url_name or "") if match else access_rules.CLUSTER
    if rule is None or not authorization.has_role(user, rule.access, rule.resource):
        return str(DENIED)
    given = RequestNames(match.kwargs if match else {}, fields, query)
    return authorization.rejection(user, rule, lambda: given, empty_form=True)


def may_be_shown(url: str) -> bool:
    """Return whether the user of this request may open the address."""
    match, query = _resolve_address(url)
    return not hidden(match, {}, query)


def missing_role(user: User, url: str, *, posts: bool) -> str:
    """The reason why the user cannot use the address; empty if the user can. `posts`: it is used by a POST."""
    match, query = _resolve_address(url)
    if not getattr(match.func, "needs_operator", False):
        return ""
    return lacking_role(user, match, {}, query) or (READ_ONLY if posts and settings.WEIR.read_only else "")


def may_use(user: User, url: str) -> bool:
    """Return whether the user of this request may change something at the address. A button that only the user's role permits is shown only then."""
    return may_be_shown(url) and not missing_role(user, url, posts=True)


def _resolve_address(url: str) -> tuple[ResolverMatch, dict[str, str]]:
    parts = urlsplit(url)
    return resolve(parts.path), dict(parse_qsl(parts.query))
