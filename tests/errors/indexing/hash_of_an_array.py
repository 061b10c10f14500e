import fgrad.numpy as fnp

cache = {}
cache[fnp.arange(3)] = "seen"
