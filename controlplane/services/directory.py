"""Renewal of the session of a user of an LDAP directory: a new query of the directory shows whether the user exists, and in which groups."""

from __future__ import annotations

from django.contrib.auth.models import User

from controlplane.clients import ldap
from controlplane.domain.external_login import LoginRejected
from controlplane.models import ExternalIdentity
from controlplane.services import external_logins

REMOVED = "The directory has no entry of the user any more."


def refresh_user(user: User) -> str:
    """Refresh the rights of this user. Returns why the session must end; empty: it continues. Raises LoginRejected if the directory does not respond."""
    identity = ExternalIdentity.objects.filter(user=user).first()
    found = ldap.find_user(user.get_username())
    if found is None or identity is None or identity.subject != found.subject:
        return REMOVED
    try:
        external_logins.user_of(found)
    except LoginRejected as rejection:
        return str(rejection)
    return ""
