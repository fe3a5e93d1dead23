"""The stories of the operators' page in a browser."""
