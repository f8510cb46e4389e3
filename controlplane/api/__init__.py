"""The REST door under /api/v1/. Law: parse, call one service or selector, shape. Must not come in: an `if` about the domain."""
