"""Limits that several services and the controller share."""

TOPIC_PARTITIONS_MAX = 10_000
"""Partitions of one topic. A broker opens a directory and two files for each; beyond this number a typing error would harm the cluster."""
