"""SoftNRC with a growing neg_weight."""

import math

from _one_digit import SIZE, draw_codes

from residuum import SoftNRC

__all__ = ["SIZE", "draw"]


def draw(figure):
    values = (0.0, 0.1, 1.0, math.inf)
    return draw_codes(figure, {f"neg_weight = {value:g}": SoftNRC(neg_weight=value) for value in values})
