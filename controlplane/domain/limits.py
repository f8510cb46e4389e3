"""Limits that several services and the controller share."""

TOPIC_PARTITIONS_MAX = 10_000
"""Maximum number of partitions of one topic. A broker opens a directory and two files for each partition. The limit protects the cluster against typing errors."""
