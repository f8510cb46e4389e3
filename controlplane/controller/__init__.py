"""The controller: makes what is wanted so. `core` decides (pure), `runner` hosts, `database` reads and writes rows, `ensemble` elects.

Law: one plan over desired and observed; events are reasons to look, never the facts. Must not come in: console, REST.
"""
