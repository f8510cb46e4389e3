"""Measures what brokers cost: CPU per GB, memory, time to start. Law: the client is librdkafka, the figures are the kernel's (/proc), and every
figure says under which conditions it was taken. Called by `make bench`."""
