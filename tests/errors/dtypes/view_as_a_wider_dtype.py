import fgrad.numpy as fnp

fnp.ones((2, 3), dtype="float32").view("float64")
