"""Numbers as text."""

from __future__ import annotations


def shown(value: float, digits: int = 1, beside: float = 0.0) -> str:
    """A return with so many decimals, and below 1 with three significant digits: rewards may be of any size.

    `beside` is the mean that a spread or a bound stands beside; if that has decimals, so has this.
    """
    return f"{value:.{digits}f}" if value == 0 or max(abs(value), abs(beside)) >= 1 else f"{value:.3g}"
