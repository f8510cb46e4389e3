"""Logins with a password and their audit records. Failed logins are counted in the database, so all web processes share the counts. Invariant: a login during a
waiting time is rejected before the password is checked, so the response reveals nothing about the password. Does not contain the waiting times
(`controlplane.clients.logins`)."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane.clients import logins
from controlplane.domain.external_login import LoginSource
from controlplane.models import LoginFailure
from controlplane.services import external_logins

log = logging.getLogger(__name__)
EVERYWHERE = ""


def is_without_users() -> bool:
    """True for a new installation: nobody can log in with a password of the database."""
    return not get_user_model().objects.exists()


def wait_s(name: str, address: str) -> float:
    """Seconds before this name may try again from this address; 0 = now."""
    now, key = timezone.now(), _key(name)
    waits = [0.0]
    for row in LoginFailure.objects.filter(name=key, address__in=(_place(address), EVERYWHERE)):
        by_name = row.address == EVERYWHERE
        free, longest = (
            (logins.FREE_BY_NAME, logins.WAIT_BY_NAME_SECONDS_MAX)
            if by_name
            else (logins.FREE_BY_PLACE, logins.WAIT_BY_PLACE_SECONDS_MAX)
        )
        waits.append(logins.wait_s(row.failures, (now - row.last_at).total_seconds(), free=free, longest=longest))
    return max(waits)


def count_failed_login(name: str, address: str) -> None:
    """Count the failure. It is written to the audit log only if a user of this name exists: invented names would fill the log, which is never shortened."""
    now, key = timezone.now(), _key(name)
    with transaction.atomic():
        LoginFailure.objects.filter(last_at__lt=now - timedelta(seconds=logins.FORGOTTEN_SECONDS)).delete()
        for place in (_place(address), EVERYWHERE):
            LoginFailure.objects.get_or_create(name=key, address=place, defaults={"last_at": now})
            LoginFailure.objects.filter(name=key, address=place).update(failures=F("failures") + 1, last_at=now)
        if (more := LoginFailure.objects.count() - logins.ROWS_MAX) > 0:
            oldest = list(LoginFailure.objects.order_by("last_at").values_list("pk", flat=True)[:more])
            LoginFailure.objects.filter(pk__in=oldest).delete()
    if get_user_model().objects.filter(username=key).exists():
        external_logins.record_failure(key, LoginSource.PASSWORD, _place(address), "The password is wrong.")
    log.warning("login failed: user=%r address=%s", key, address)


def record_successful_login(name: str, address: str, user: str, source: LoginSource) -> None:
    """Record the login of `user`, who entered `name`."""
    external_logins.record_login(user, source, _place(address))
    LoginFailure.objects.filter(name=_key(name), address=_place(address)).delete()


def logged_out(name: str) -> None:
    external_logins.record_logout(name)


def _key(name: str) -> str:
    return name[:150]


def _place(address: str) -> str:
    return address[:64] or "unknown"
