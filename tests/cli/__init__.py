"""Kafka's own command line tools, out of its distribution's jars, against a cluster of ours: `make cli`. Outside `make test`: it wants Maven and a JVM for each call."""
