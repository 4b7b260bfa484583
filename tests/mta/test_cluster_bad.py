#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A Redis that is none: it speaks something else, or says nothing, or too much, or what nobody
asked for.  Each is told once and counted, costs no memory and no process, and nobody is
admitted above the machine's own part; when it is right again, all goes on."""
from lib.bad_redis import STRANGERS
from lib.cluster_tried import World
from lib.testing import main

def body(test):
    world = World(test)
    world.silence()
    world.each("strangers", "stranger", list(STRANGERS.items()))
    world.back("a real one, again")
    world.judge()


main(body, seconds=80)
