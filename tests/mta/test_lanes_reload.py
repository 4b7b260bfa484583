#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A window falls while mail waits in a wider lane: Postfix is told to reload, once a minute at most."""
from lib.lanes_reload import again, falls, run

run("falls.example", falls, again)
