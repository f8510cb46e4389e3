"""Shared by brokers and control plane: data model, znodes, metadata records, leader election, replica placement.

Only `zookeeper.py` performs I/O. Does not contain the Kafka wire protocol, Django, or policy of one side only.
"""
