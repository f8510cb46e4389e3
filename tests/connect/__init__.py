"""Kafka Connect of Apache Kafka with brokers of Weir: `make connect`."""
