"""Weir compared with Apache Kafka: the same client, topics, flush settings and machine, in alternating passes. The peer runs with its own defaults
and the JVM flags of its scripts. A ratio is reported with its spread. If the peer is not available, its column is absent, and the report says
so. Does not contain: limits (they are in `bench`).
"""
