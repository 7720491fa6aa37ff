"""The answers of `strudel query`: how each is found, and how it is shown."""
