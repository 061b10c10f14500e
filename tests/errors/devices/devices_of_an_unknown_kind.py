import fgrad

fgrad.devices("gpu")
