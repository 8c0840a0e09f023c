"""docs/controller.md: every block of code runs, and what the page says of the results is true."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from compiled import GCC, NO_GCC
from pages import run_page

PAGE = Path(__file__).parent.parent / "docs" / "controller.md"


@pytest.mark.skipif(GCC is None, reason=NO_GCC)
@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
def test_from_training_to_a_controller_in_c(tmp_path):
    pytest.importorskip("onnx", reason="pip install 'rsa2c[export]'")
    pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    names = run_page(PAGE, tmp_path)
    agent, exported = names["agent"], names["exported"]
    q, d, m = agent.dictionary_sizes["actor"], 2, 1
    assert exported.bytes == 4 * (q * (d + m) + 3 * d + 3 * m)
    assert q < 80  # the page says 56, which may differ between machines
    assert names["score"].mean > -30
    angle = [float(text) for text in re.findall(r"error\s+(\S+) rad", names["output"])]
    assert abs(angle[0]) > 2.5 and abs(angle[-1]) < 0.05
    assert "fallback" not in names["output"]
    np.testing.assert_allclose(names["voltage"], agent.predict(names["state"])[0], atol=1e-6)
