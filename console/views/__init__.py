"""Views. A view parses the request, calls selectors or one service, and renders. A rejection is shown next to its form field."""
