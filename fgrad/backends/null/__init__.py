"""The NULL device: lowers and counts, and runs nothing."""
