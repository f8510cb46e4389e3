"""Request handlers: one file per family of APIs. A handler reads the request, calls one component of the broker and builds the response."""
