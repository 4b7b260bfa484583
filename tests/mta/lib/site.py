# SPDX-License-Identifier: ISC
"""A Postfix and a Postern side by side, as the lines of conf/ attach them."""
from lib.postern import Postern
from lib.postfix import Postfix


def site(test, services, classes, ports, main="", **more):
    """`services`: texts of master.cf (conf_service); both are running after."""
    postfix = Postfix(test, services, main=main)
    postern = Postern(test, classes, spool=postfix.spool, **more)
    postern.start()
    postfix.start(*ports)
    return postfix, postern
