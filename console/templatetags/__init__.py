"""Template tags of the console. `fragments` has the HTML of values; the tags only call it."""
