"""What is done when a part of the cluster's memory is gone: backup, restore, rebuild, import.

Laws: what replaces the metadata log never trusts a leader or an ISR that it did not find in the brokers' own logs; nothing is overwritten that
could be somebody's only copy, unless it is said to be (`--force`). Called by the management commands of the same names. docs/how-to.
"""
