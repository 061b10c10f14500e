from fgrad import config

config.update("threads", -1)
