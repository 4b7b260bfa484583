#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A destination is suspended while its mail waits in a lane: Postfix is told to reload."""
from lib.lanes_reload import stops, run

run("stops.example", stops)
