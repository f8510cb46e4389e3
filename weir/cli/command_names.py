"""The first words of the command line over the REST API. The program `weir` decides by them, so this module imports neither click nor requests: a
process of the control plane needs none of them when it starts. Does not contain: the commands (`app`, `documents`).
"""

from __future__ import annotations

from weir_common.rest_operations import operations

API = "api"
ALIASES = {"audit": ("changes", "list"), "lag": ("groups", "show")}
"""{first word: noun and verb of the same command}."""
DOCUMENT_COMMANDS = frozenset({"diff", "apply", "export"})
NOUNS = frozenset(o.noun for o in operations())
COMMANDS = NOUNS | {API, *ALIASES} | DOCUMENT_COMMANDS
"""First words that the command line over the REST API handles. All other words are Django commands (`weir.__main__`)."""
