"""Rows and a structure -> a mixture: EM, bagged EM, boosting, or a structure per component."""
