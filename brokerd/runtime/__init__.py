"""Composition: builds a broker from its parts and runs its lifecycle. May import every package; only `__main__` and tests import it."""
