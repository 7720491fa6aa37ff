"""Rows with unknown values -> a model."""
