"""The Kafka protocol: bytes to values and back.

Law: pure; whatever comes in is bounded by the bytes that came. Called by everything in brokerd that speaks. Must not come in:
anything of the house above the ground floor.
"""
