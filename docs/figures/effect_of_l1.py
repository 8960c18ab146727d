"""SRC with a growing l1."""

from _one_digit import SIZE, draw_codes

from residuum import SRC

__all__ = ["SIZE", "draw"]


def draw(figure):
    return draw_codes(figure, {f"l1 = {value:g}": SRC(l1=value) for value in (0.001, 0.01, 0.1, 1.0)})
