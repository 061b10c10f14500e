import fgrad

fgrad.jvp(lambda p: p["a"], ({"a": 1.0, "b": 2.0},), ({"a": 1.0},))
