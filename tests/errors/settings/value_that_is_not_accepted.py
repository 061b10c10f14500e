from fgrad import config

config.update("check", "nans")
