"""Weir beside Apache Kafka: the same client, topics, flush settings and machine, in alternating passes. Laws: the peer runs with its own defaults
and its own scripts' JVM flags; a ratio is told with its spread; where the peer cannot be had the column is absent, and says so. Called by
`make bench-peer`. Must not come in: limits (that is `bench`)."""
