import fgrad

with fgrad.default_device("cpu:first"):
    pass
