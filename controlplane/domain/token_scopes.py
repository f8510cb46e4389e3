"""Scopes of API tokens. A token never permits more than its scope, and never more than its user's role."""

from __future__ import annotations

from enum import StrEnum


class TokenScope(StrEnum):
    """Scopes in increasing order of their rights: to read, to operate the cluster, everything that the user may do."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def permits(self, other: TokenScope) -> bool:
        order = list(TokenScope)
        return order.index(self) >= order.index(other)


def scope_of_role(*, is_operator: bool, is_superuser: bool) -> TokenScope:
    """The greatest scope of a token that a user of this role can have."""
    if is_superuser:
        return TokenScope.ADMIN
    return TokenScope.OPERATE if is_operator else TokenScope.READ
