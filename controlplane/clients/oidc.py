"""The login provider of OpenID Connect, through Authlib: authorization code flow with PKCE, state and nonce.

Invariants: issuer, audience, signature, expiry and nonce of the ID token are verified, and only with asymmetric algorithms. A state is accepted once,
in the session in which it was created. Nothing of a token is logged or stored. Does not contain: what groups permit (`domain.external_login`).
Authlib is an optional dependency (the extra `oidc`): `is_configured()` does not import it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from controlplane.domain.external_login import (
    ExternalUser,
    LoginRejected,
    LoginRejection,
    LoginSource,
    claim,
    group_names,
    name_list,
)

if TYPE_CHECKING:
    from authlib.integrations.django_client import DjangoOAuth2App
    from requests import RequestException

TIMEOUT_SECONDS = 5.0
"""Time limit of each request to the provider. A page waits for at most four: discovery, token, keys, claims."""
METADATA_SECONDS = 3600.0
"""Endpoints and keys of the provider are read again after this time, so that a withdrawn key is not accepted for longer."""
LEEWAY_SECONDS = 60
"""Difference of clocks for the expiry of an ID token."""
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
"""Accepted signature algorithms. `none` and HMAC, whose key is the client's secret, are excluded."""
NAME = "weir"
LOGIN_REQUIRED = frozenset({"login_required", "interaction_required", "consent_required", "account_selection_required"})
"""Errors of a silent renewal: the provider has no session of the user, or wants to show a page."""


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """The settings of OpenID Connect."""

    issuer: str
    client_id: str
    client_secret: str
    scopes: str


def is_configured() -> bool:
    return bool(settings.WEIR.oidc_issuer)


def redirect_to_provider(request: HttpRequest, callback: str, state: str, *, silent: bool) -> HttpResponse:
    """The redirect to the provider's login page. `silent`: without any page of the provider (`prompt=none`). Raises LoginRejected."""
    from authlib.integrations.base_client import OAuthError
    from requests import RequestException

    more = {"prompt": "none"} if silent else {}
    try:
        response: HttpResponse = _provider().authorize_redirect(request, callback, state=state, **more)
    except RequestException as error:
        raise _provider_error(error) from error
    except (OAuthError, RuntimeError, ValueError) as error:
        raise _bad_response(error) from error
    return response


def forget_state(request: HttpRequest, state: str) -> None:
    _provider().framework.clear_state_data(request.session, state)


def user_of_callback(request: HttpRequest) -> ExternalUser:
    """The authenticated user of the provider's redirect. Raises LoginRejected."""
    from authlib.integrations.base_client import MismatchingStateError, OAuthError
    from joserfc.errors import JoseError
    from requests import RequestException

    provider = _provider()
    issuer = settings.WEIR.oidc_issuer
    options = {
        "iss": {"essential": True, "values": [issuer]},
        "aud": {"essential": True, "values": [provider.client_id]},
    }
    try:
        token = provider.authorize_access_token(request, claims_options=options, leeway=LEEWAY_SECONDS)
        claims = dict(token.get("userinfo") or {})
        if not claims:
            raise LoginRejected(LoginRejection.INVALID_TOKEN, provider=issuer, cause="there is no ID token")
        return _user(claims, lambda: dict(provider.userinfo(token=token)))
    except MismatchingStateError as error:
        raise LoginRejected(LoginRejection.WRONG_STATE) from error
    except OAuthError as error:
        cause = error.description or error.error or "no reason"
        raise LoginRejected(LoginRejection.REJECTED_BY_PROVIDER, provider=issuer, cause=str(cause)[:200]) from error
    except RequestException as error:
        raise _provider_error(error) from error
    except JoseError as error:
        cause = error.description or error.error
        raise LoginRejected(
            LoginRejection.INVALID_TOKEN, provider=issuer, cause=str(cause).rstrip(".")[:200]
        ) from error
    except (RuntimeError, ValueError, KeyError) as error:
        raise _bad_response(error) from error


def _user(claims: dict[str, Any], read_userinfo: Any) -> ExternalUser:
    """`read_userinfo` is called only if the ID token lacks a claim that the settings name."""
    weir = settings.WEIR
    names = (weir.oidc_username_claim, weir.oidc_groups_claim)
    if any(claim(claims, name) is None for name in names) and "userinfo_endpoint" in _provider().server_metadata:
        more = read_userinfo()
        if more.get("sub") != claims["sub"]:
            raise LoginRejected(
                LoginRejection.INVALID_TOKEN,
                provider=weir.oidc_issuer,
                cause="sub differs between ID token and userinfo",
            )
        claims = {**more, **claims}
    name = claim(claims, weir.oidc_username_claim)
    if not isinstance(name, str) or not name:
        raise _claim_missing(claims, weir.oidc_username_claim, "")
    groups = claim(claims, weir.oidc_groups_claim)
    if groups is None and weir.oidc_groups_claim in (claims.get("_claim_names") or {}):
        raise LoginRejected(LoginRejection.TOO_MANY_GROUPS, user=name, claim=weir.oidc_groups_claim)
    if groups is None:
        raise _claim_missing(claims, weir.oidc_groups_claim, name)
    email = claims.get("email")
    return ExternalUser(
        LoginSource.OIDC,
        weir.oidc_issuer[:255],
        str(claims["sub"])[:255],
        name,
        email if isinstance(email, str) else "",
        group_names(groups),
    )


def _claim_missing(claims: dict[str, object], name: str, user: str) -> LoginRejected:
    return LoginRejected(LoginRejection.CLAIM_MISSING, user=user, claim=name, sent=name_list(sorted(claims)))


def _provider_error(error: RequestException) -> LoginRejected:
    """Return the rejection for a failed request to the provider: no response or a 5xx, or else an invalid response (a wrong path, no JSON)."""
    from requests import ConnectionError as NoConnection
    from requests import Timeout

    status = error.response.status_code if error.response is not None else 0
    if isinstance(error, Timeout):
        cause = f"no response within {TIMEOUT_SECONDS:.0f} s"
    elif isinstance(error, NoConnection):
        cause = "no connection"
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        cause = f"HTTP status {status}"
    else:
        return _bad_response(error)
    return LoginRejected(LoginRejection.UNREACHABLE, provider=settings.WEIR.oidc_issuer, cause=cause)


def _bad_response(error: Exception) -> LoginRejected:
    return LoginRejected(LoginRejection.BAD_RESPONSE, provider=settings.WEIR.oidc_issuer, cause=str(error)[:200])


# -- the client of Authlib ------------------------------------------------------------------------------------------------------

_lock = threading.Lock()


def _provider() -> DjangoOAuth2App:
    weir = settings.WEIR
    config = ProviderConfig(weir.oidc_issuer, weir.oidc_client_id, weir.oidc_client_secret, weir.oidc_scopes)
    with _lock:
        return _client(config, int(time.monotonic() // METADATA_SECONDS))


@lru_cache(maxsize=1)
def _client(config: ProviderConfig, age: int) -> DjangoOAuth2App:
    """`age` makes a new client after METADATA_SECONDS."""
    from authlib.integrations.django_client import DjangoIntegration
    from authlib.integrations.django_client import DjangoOAuth2App as App

    class Provider(App):  # type: ignore[misc]
        def load_server_metadata(self) -> dict[str, Any]:
            metadata: dict[str, Any] = super().load_server_metadata()
            if metadata.get("issuer") != config.issuer:
                sent = metadata.get("issuer")
                self.server_metadata.clear()
                raise RuntimeError(f"its issuer is {sent!r}, and WEIR_OIDC_ISSUER is {config.issuer!r}")
            known = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            metadata["id_token_signing_alg_values_supported"] = [a for a in known if a in ALGORITHMS]
            return metadata

    return Provider(
        DjangoIntegration(NAME),
        NAME,
        client_id=config.client_id,
        client_secret=config.client_secret or None,
        server_metadata_url=f"{config.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": config.scopes,
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_SECONDS,
            **({} if config.client_secret else {"token_endpoint_auth_method": "none"}),
        },
    )
