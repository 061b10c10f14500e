"""A graphics processor in software: rings, doorbells, packets, an address map of its own.

In: packets in memory and rung doorbells. Out: what they do to memory, step by step in an order that
a seed draws. Promise: every access is checked; a race, a stale address or a broken packet is an
error that names it.
"""
