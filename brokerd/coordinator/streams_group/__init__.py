"""Streams groups (KIP-1071): membership, topology and assignment of tasks."""
