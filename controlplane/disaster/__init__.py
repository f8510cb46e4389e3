"""Disaster recovery: backup, restore, rebuild of the metadata log, import of the database.

Invariants: a new metadata log takes leaders and ISRs only from the brokers' own logs. Data that may be the only copy is overwritten only
with `--force`. The management commands have the same names; docs/how-to/disaster.md describes them.
"""
