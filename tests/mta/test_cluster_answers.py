#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: ISC
"""A real Redis whose scripts answer nonsense: each is told once and counted, costs no memory and
no process, and nobody is admitted above the machine's own part; when it is right again, all
goes on."""
from lib.cluster_tried import World
from lib.testing import main

# What a real server may say to a script, and what it can never say.
ANSWERS = {
    "nothing": b"$-1\r\n",
    "a number": b":7\r\n",
    "an empty list": b"*0\r\n",
    "a text": b"$5\r\nhello\r\n",
    "a list of texts": b"*3\r\n$2\r\nok\r\n$3\r\nall\r\n$4\r\nmine\r\n",
    "lists in lists": b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "ever so much granted": b"*8\r\n$2\r\nok\r\n" + b":9223372036854775807\r\n" * 7,
    "less than nothing granted": b"*8\r\n$2\r\nok\r\n" + b":-9\r\n" * 7,
    "an error to be escaped": b"-ERR \x1b[31mred\x07 %s%n\r\n",
    "that it loads": b"-LOADING Redis is loading the dataset in memory\r\n",
    "that it is busy": b"-BUSY Redis is busy running a script.\r\n",
    "that it is a replica": b"-READONLY You can't write against a read only replica.\r\n",
    "that it is full": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "that it is elsewhere": b"-MOVED 3999 127.0.0.1:6381\r\n",
    "no such script, always": b"-NOSCRIPT No matching script.\r\n",
}


def body(test):
    world = World(test)
    world.each("answers", "answer", list(ANSWERS.items()))
    world.back("its own answers again")
    world.judge()


main(body, seconds=80)
