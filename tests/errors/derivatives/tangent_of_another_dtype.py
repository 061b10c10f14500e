import fgrad
import fgrad.numpy as fnp

fgrad.jvp(lambda p: p["w"] * 2, ({"w": fnp.ones(3)},), ({"w": fnp.ones(3, dtype="int32")},))
