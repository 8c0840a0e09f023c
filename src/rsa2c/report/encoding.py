"""A page's data as JSON. Arrays are base64 of little-endian floats, so that the browser computes with the same bits."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

KINDS = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}


def to_json(document: Any) -> str:
    """JSON that is safe inside a script element: `<` is escaped so nothing can end it, and NaN becomes null."""
    text = json.dumps(_plain(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    for character, escape in escapes.items():
        text = text.replace(character, escape)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = value if value.dtype in KINDS else value.astype(np.float64)
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return {"shape": list(array.shape), KINDS[array.dtype]: base64.b64encode(data).decode()}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
