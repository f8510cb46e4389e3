"""Command-line tools that read data directories: log dump and inspection. May import every package; nothing imports them."""
