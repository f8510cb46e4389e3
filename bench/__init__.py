"""Benchmarks of brokers: CPU per GB, memory, start time. The client is librdkafka, the figures are from the kernel (/proc), and each figure is
reported with its conditions.
"""
