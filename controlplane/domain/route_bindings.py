"""Checks of the bindings of a form, one at a time. Does not contain: the rules (`brokerd.cluster.routes`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from brokerd.cluster.routes import Binding, InvalidRoute, MatchKind, SampleBy, route_of

__all__ = ["BindingProblem", "MatchKind", "SampleBy", "binding_problem", "have_equal_meaning", "path_in_binding"]


class BindingProblem(NamedTuple):
    """`path`: the invalid field inside of the binding, for example ("match", "headers", "1", "name")."""

    path: tuple[str, ...]
    reason: str


def binding_problem(binding: Mapping[str, object]) -> BindingProblem | None:
    """The reason why a binding, as in a REST request, is not valid."""
    try:
        _parse_bindings([binding])
    except InvalidRoute as e:
        return BindingProblem(path_in_binding(e.field), e.reason)
    return None


def path_in_binding(field: str) -> tuple[str, ...]:
    """The part of a path such as `bindings.3.match.value` inside of the binding."""
    return tuple(field.split(".")[2:])


def have_equal_meaning(first: Sequence[Mapping[str, object]], second: Sequence[Mapping[str, object]]) -> bool:
    """Return whether both lists are valid and route every record in the same way."""
    try:
        return _parse_bindings(first) == _parse_bindings(second)
    except InvalidRoute:
        return False


def _parse_bindings(bindings: Sequence[Mapping[str, object]]) -> tuple[Binding, ...]:
    return route_of("r", 0, {"source": "s", "bindings": list(bindings)}).bindings
