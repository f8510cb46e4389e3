"""Partitions and their replicas: ISR, leader epochs, high watermark, fetching from leaders, moves between log directories."""
