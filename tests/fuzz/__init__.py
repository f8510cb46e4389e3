"""Arbitrary and plausible bytes on the listeners of a complete broker in this process.

Invariant: a talk (the bytes of one test) depends only on its input bytes, so that it can be repeated.
"""
