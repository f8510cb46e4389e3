"""The Kafka protocol: conversion between bytes and values.

Invariants: pure functions. The memory for a message is bounded by the received bytes.
"""
