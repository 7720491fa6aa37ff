"""Step 6: scikit-learn estimators: check, call, keep."""
