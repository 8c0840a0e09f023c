"""The method: an epoch and its phases."""
