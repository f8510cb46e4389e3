"""Tiered storage (KIP-405): closed segments in a remote store.

The values and decisions (`segments`, `remote_log`, `lineage`, `leader`) are pure. The helper process (`python -m brokerd.remote`) does all I/O with the
store. Does not contain: the event loop, requests of clients.
"""
