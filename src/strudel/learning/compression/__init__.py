"""A learned circuit -> a smaller one that is nearly as good."""
