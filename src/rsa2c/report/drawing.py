"""Frames of a film: the environment's picture, or a chart, beside the actions and what each feature adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rsa2c.errors import require
from rsa2c.plots import INK, NEGATIVE, PALE, POSITIVE

Array = NDArray[np.float64]
SIDE = 360
"""Height of a frame, and of the picture in it."""
PANEL, LABELS, MARGIN, ROW = 420, 150, 12, 26
SHOWN_FEATURES, SHOWN_ACTIONS = 8, 3
PAPER = "#ffffff"
SPELT = {"θ": "theta", "²": "2"}
"""Signs that Pillow's own font does not have."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """What the panel of an episode shows: the features that contribute most, and the first actions."""

    title: str
    features: Sequence[str]
    actions: Sequence[str]
    states: Array
    """(F, d): features at each frame."""
    chosen: Array
    """(F, m): actions at each frame."""
    contributions: Array
    """(F, d, m): what each feature adds to each action, in the action's units."""
    low: Array
    high: Array

    @property
    def columns(self) -> int:
        """Actions that are shown."""
        return min(len(self.actions), SHOWN_ACTIONS)

    @property
    def rows(self) -> list[int]:
        """Features that are shown, those with the largest contributions (as shares of an action's range) first."""
        shares = np.abs(self.contributions).mean(axis=0) / (self.high - self.low)
        return [int(i) for i in np.argsort(-shares.sum(axis=1), kind="stable")[:SHOWN_FEATURES]]

    @property
    def scale(self) -> Array:
        """(m,): the largest contribution to each action in the episode, at which a bar is full."""
        largest = np.abs(self.contributions).max(axis=(0, 1))
        return np.where(largest > 0, largest, 1.0)


class Drawer:
    """Draws the frames of one sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.image = require("PIL.Image", "watch", "Drawing an episode")
        self.pen = require("PIL.ImageDraw", "watch", "Drawing an episode")
        self.font, self.spelt = _font()
        self.rows, self.scale = sheet.rows, sheet.scale

    def frame(self, number: int, note: str, picture: NDArray[np.uint8] | None) -> Any:
        """Frame `number` as a PIL image; `note` stands under the title, and without a picture a chart is drawn."""
        left = self._chart(number) if picture is None else self._scaled(picture)
        frame = self.image.new("RGB", (left.width + PANEL, SIDE), PAPER)
        frame.paste(left, (0, 0))
        self._panel(self.pen.Draw(frame), left.width + MARGIN, number, note)
        return frame

    def _scaled(self, pixels: NDArray[np.uint8]) -> Any:
        """The picture at a frame's height; its width is even, as videos need."""
        picture = self.image.fromarray(pixels).convert("RGB")
        return picture.resize((2 * round(picture.width * SIDE / picture.height / 2), SIDE))

    def _panel(self, draw: Any, x: int, number: int, note: str) -> None:
        """Title, each action in its range, and a signed bar for each feature and action."""
        sheet, width = self.sheet, (PANEL - LABELS - 2 * MARGIN) // self.sheet.columns
        self._text(draw, (x, 8), sheet.title)
        self._text(draw, (x, 26), note)
        y = 62
        for column in range(sheet.columns):
            left = x + LABELS + column * width
            low, high, now = sheet.low[column], sheet.high[column], sheet.chosen[number, column]
            self._text(draw, (left, 44), f"{sheet.actions[column]} {now:+.2f}", width - 6)
            share = np.clip((now - low) / (high - low), 0, 1)
            draw.rectangle((left, y, left + width - 10, y + 10), fill=PALE)
            at = left + int(share * (width - 10))
            draw.rectangle((at - 2, y - 2, at + 2, y + 12), fill=INK)
        self._text(draw, (x, y - 3), "action")
        for row, feature in enumerate(self.rows):
            top = y + 30 + row * ROW
            self._text(draw, (x, top), f"{sheet.features[feature]} {sheet.states[number, feature]:.2f}", LABELS - 6)
            for column in range(sheet.columns):
                value = sheet.contributions[number, feature, column] / self.scale[column]
                middle, half = x + LABELS + column * width + (width - 10) // 2, (width - 10) // 2
                end = middle + round(float(value) * half)
                draw.line((middle, top, middle, top + ROW - 8), fill=PALE)
                if end != middle:
                    colour = POSITIVE if value > 0 else NEGATIVE
                    draw.rectangle((min(middle, end), top + 3, max(middle, end), top + ROW - 12), fill=colour)
        self._text(draw, (x, SIDE - 22), "bars: what each feature adds to the action (Shapley values)")

    def _chart(self, number: int) -> Any:
        """The shown features over the episode, each in its own range, with a dot now."""
        chart = self.image.new("RGB", (SIDE, SIDE), PAPER)
        draw = self.pen.Draw(chart)
        height = (SIDE - 2 * MARGIN) // len(self.rows)
        count = len(self.sheet.states)
        x = np.linspace(MARGIN, SIDE - MARGIN, count)
        for row, feature in enumerate(self.rows):
            values, top = self.sheet.states[:, feature], MARGIN + row * height
            spread = np.ptp(values) or 1.0
            y = top + height - 6 - (values - values.min()) / spread * (height - 24)
            self._text(draw, (MARGIN, top - 2), self.sheet.features[feature], SIDE - 2 * MARGIN)
            draw.line([(float(a), float(b)) for a, b in zip(x, y, strict=True)], fill=NEGATIVE)
            draw.ellipse((x[number] - 3, y[number] - 3, x[number] + 3, y[number] + 3), fill=POSITIVE)
        return chart

    def _text(self, draw: Any, at: tuple[int, int], text: str, width: int = PANEL - 2 * MARGIN) -> None:
        """Text, cut off with an ellipsis where it would be wider than `width`."""
        if self.spelt:
            text = "".join(SPELT.get(sign, sign) for sign in text)
        if draw.textlength(text, font=self.font) > width:
            while text and draw.textlength(text + "…", font=self.font) > width:
                text = text[:-1]
            text += "…"
        draw.text(at, text, fill=INK, font=self.font)


def _font() -> tuple[Any, bool]:
    """A font, and whether some signs have to be spelt: Pillow's own has no Greek letters."""
    fonts = require("PIL.ImageFont", "watch", "Drawing an episode")
    try:
        return fonts.truetype("DejaVuSans.ttf", 12), False
    except OSError:
        return fonts.load_default(12), True
