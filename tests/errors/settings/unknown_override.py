from fgrad import config

with config.override(chek="nan"):
    pass
