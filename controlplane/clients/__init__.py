"""Clients of other systems: brokers (Kafka protocol), Spark, and their connection settings."""
