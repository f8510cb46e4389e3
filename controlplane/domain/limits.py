"""Limits that several services and the controller share."""

TOPIC_PARTITIONS_MAX = 10_000
"""Maximum number of partitions of one topic. A broker opens a directory and two files for each partition. The limit protects the cluster against typing errors."""

SAMPLE_GAP_MS = 60_000
"""Maximum milliseconds between consecutive samples of a rate: several rounds of the slowest sampling. The average over a longer gap is no rate, because the
cluster or the monitor may have been down in between."""
