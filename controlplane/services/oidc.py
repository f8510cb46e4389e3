"""The login provider of OpenID Connect, for the console."""

from controlplane.clients.oidc import (
    LOGIN_REQUIRED,
    configured,
    forget_state,
    redirect_to_provider,
    user_of_callback,
)

__all__ = ["LOGIN_REQUIRED", "configured", "forget_state", "redirect_to_provider", "user_of_callback"]
