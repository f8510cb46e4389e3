"""Benchmarks of brokers: CPU per GB, memory, start time. The client is librdkafka, the values are from the kernel (/proc), and each value is
reported with its conditions.
"""
