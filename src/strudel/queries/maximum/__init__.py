"""The most probable states: MAP and marginal MAP, of circuits and of mixtures."""
