"""The control plane: the desired state, and the controller that applies it.

Invariants: services write, selectors read; API views, tasks and commands are thin. Does not contain: pages, Spark, broker internals.
"""
