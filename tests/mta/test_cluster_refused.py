#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A real Redis that does not take a machine: a wrong password, a user who may not do what is
needed, keys that are another program's or a later version's.  Each is told once and counted,
harms nobody, and when it is mended, all goes on; a user that was changed is taken by a reload.
--rounds: each command that is needed."""
from lib.cluster import PASSWORD
from lib.cluster_tried import World
from lib.testing import main

RIGHT = ("on", "resetpass", f">{PASSWORD}")
PASSWORDS = ((("resetpass", ">another"), RIGHT), (("off",), RIGHT), (("resetpass",), RIGHT))
# Of those that a share needs, in the short form.
COMMANDS = ("evalsha", "script|load", "hset")
ALL = ("evalsha", "script|load", "info", "get", "set", "hmget", "hset", "pexpire",
       "subscribe")
KEYS = (("1:leases", "list"), ("1:leases", "hash"), ("schema", "list"))


def body(test):
    world = World(test)
    world.each("passwords", "password", list(PASSWORDS))
    world.each("permissions", "permission",
               [(command, None) for command in (ALL if test.rounds else COMMANDS)])
    world.each("keys of others", "foreign", list(KEYS))
    world.each("schemas", "newer", [(2, "schema"), (999, "schema"), ("mine", "foreign")])
    world.all_joined("at last")
    world.judge()
    world.tried[0].another_user()


main(body, seconds=80)
