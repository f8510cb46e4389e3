"""The broker daemon: what serves the bytes. See ARCHITECTURE.md for the code map."""
