"""The callback that answers a request to a coordinator. A state machine does not call it: it passes it on in its effect `Reply`. Type only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

ReplyCallback: TypeAlias = "Callable[[Any], None]"
"""Gets the response. Its type depends on the kind of the event."""
