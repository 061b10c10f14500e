"""The walk: from a call to arrays.

In: functions and arrays. Out: arrays. Promise: compiled once per signature; one native call per call.
"""
