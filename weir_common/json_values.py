"""Types of JSON values, for code that handles JSON of any shape. Does not contain: parsing, checks of a shape."""

from __future__ import annotations

from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"
