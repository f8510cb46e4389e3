"""The controller brings the cluster to the desired state.

`core` decides (pure), `runner` hosts the core, `database` reads and writes rows, `ensemble` elects.
Invariant: each pass plans from the desired and the observed state. An event only triggers a pass. Does not contain: console, REST.
"""
