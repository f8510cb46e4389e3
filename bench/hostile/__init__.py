"""A hostile client beside normal clients, on Weir and on Apache Kafka. The hostile client sends valid Kafka requests. The latency of the normal
clients is reported as a ratio to their latency without the hostile client, in the same run. Both systems get the same bytes. Does not contain: limits (they are in the tests).
"""
