"""CRC with a growing l2."""

from _one_digit import SIZE, draw_codes

from residuum import CRC

__all__ = ["SIZE", "draw"]


def draw(figure):
    return draw_codes(figure, {f"l2 = {value:g}": CRC(l2=value) for value in (1e-4, 0.01, 1.0, 100.0)})
