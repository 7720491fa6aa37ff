"""What the report says about each item: one function per item, `(Results) -> Section`."""
