"""Buckets of the histogram of produce latencies that DescribeLogDirs reports. Brokers count latencies in these buckets, and the control plane reads them."""

BOUNDS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10000)
"""Upper bounds in ms, each about 1.5 times the previous one. One more bucket is above the last bound."""
