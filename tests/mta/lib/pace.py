# SPDX-License-Identifier: ISC
"""Messages per time, as a server sees them."""


def worst(times, per_minute):
    """How many more were taken in any time than the pace alone gives."""
    most = 0
    for i, begin in enumerate(times):
        for j in range(i, len(times)):
            most = max(most, j - i + 1 - (times[j] - begin) * per_minute / 60)
    return most


def rate(times):
    """A minute, between the first and the last."""
    return (len(times) - 1) / (times[-1] - times[0]) * 60
