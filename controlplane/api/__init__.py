"""The REST API under /api/v1/. A view parses the request, calls one service or selector and shapes the response."""
