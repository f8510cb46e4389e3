"""The login provider of OpenID Connect, for the console."""

from controlplane.clients.oidc import (
    LOGIN_REQUIRED,
    forget_state,
    is_configured,
    redirect_to_provider,
    user_of_callback,
)

__all__ = ["LOGIN_REQUIRED", "forget_state", "is_configured", "redirect_to_provider", "user_of_callback"]
