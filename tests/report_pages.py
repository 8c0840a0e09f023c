"""Small runs for the tests of the report, and how these read a page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from rsa2c.runs.training import train_run

TINY = {
    "n_envs": 4, "horizon": 50, "capacity": 24, "initial_centres": 12, "evaluation_episodes": 2,
}  # fmt: skip
GUIDED = {
    "attribution_centres": 20, "attribution_states": 8, "attribution_background": 8, "attribution_warmup": 1
}  # fmt: skip


def trained(folder, algorithm="rsa2c-kme", env_id="Pendulum-v1", **fields):
    own = {**TINY, **(GUIDED if algorithm.startswith("rsa2c") else {}), **fields}
    return train_run(env_id, algorithm, total_timesteps=2600, out=folder, track=False, **own)


def document(text):
    """The JSON document embedded in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def visible(text):
    """The words of a page, scripts and styles left out."""
    words, inside = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            inside.append(tag)

        def handle_endtag(self, tag):
            while inside and inside.pop() != tag:
                pass

        def handle_data(self, data):
            if not {"script", "style"} & set(inside):
                words.append(data)

    Reader().feed(text)
    return re.sub(r"\s+", " ", " ".join(words))
