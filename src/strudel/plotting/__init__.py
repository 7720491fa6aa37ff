"""Step 7b: pictures. Every function takes a matplotlib `ax` and returns it."""
