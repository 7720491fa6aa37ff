"""Questions in the columns of a table, and what they share."""
