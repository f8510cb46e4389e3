"""Request handlers: one file per family of APIs. A handler parses, calls one part of the broker and shapes the response."""
