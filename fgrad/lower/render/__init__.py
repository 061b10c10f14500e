"""Kernel trees as other languages: Python (interpreted, every access checked) and C text."""
