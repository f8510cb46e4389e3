"""The web console: views, template tags, live updates over a WebSocket. Contains no domain logic."""
