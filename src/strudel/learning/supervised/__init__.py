"""Rows and a target -> class models and predictor circuits."""
