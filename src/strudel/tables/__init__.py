"""Tables as people have them -> 0/1 variables, and back."""
