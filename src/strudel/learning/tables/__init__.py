"""Learning a table from its cells: latent trees, components of independent columns, and both."""
