"""Kafka's own command line tools, from the jars of its distribution, against a Weir cluster: `make cli`. Not in `make test`: needs Maven and a JVM per call."""
