"""The PYTHON device: lowered programs interpreted, every access checked."""
