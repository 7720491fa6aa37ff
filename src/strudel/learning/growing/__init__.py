"""The circuit while it grows: its arrays, and what a split or a clone does to them."""
