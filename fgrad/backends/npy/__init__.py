"""NumPy arrays as buffers: lent to the other devices; no program runs there."""
