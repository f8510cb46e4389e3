"""The live panels of a request.

A live update reloads panels, not the page. The browser lists the element ids of the panels in a header (static/weir/panels.js). The response has
only these panels: a template tests `"<id>" in panels` around a panel and `panels.whole` around the rest. A selector is called only if its panel is
requested (`lazy`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import ParamSpec, TypeVar

from django.http import HttpRequest

PANELS_HEADER = "Weir-Panels"
"""Element ids, separated by spaces. Absent: the whole page."""

POSITION_HEADER = "Weir-Position"
"""Run and number of the newest update that the page has, separated by a space. Only in a request for panels."""

P = ParamSpec("P")
T = TypeVar("T")


class RequestedPanels:
    def __init__(self, request: HttpRequest) -> None:
        header = request.headers.get(PANELS_HEADER)
        self.whole = header is None
        """True for a request for the whole page: all panels, the frame and everything between the panels."""
        self._ids = frozenset((header or "").split())

    def __contains__(self, panel: object) -> bool:
        return self.whole or panel in self._ids


def known_position(request: HttpRequest) -> tuple[str, int] | None:
    """The newest update that the page of this request has; None for a request for a whole page."""
    run, _, seq = request.headers.get(POSITION_HEADER, "").partition(" ")
    return (run, int(seq)) if seq.isascii() and seq.isdigit() and len(seq) < 20 else None


def lazy(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """A context value that is read when a template first uses it, once. Templates call a callable without arguments."""
    return cache(partial(read, *args, **kwargs))
