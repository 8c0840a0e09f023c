"""Explanation and prototypes: shapes, looking, shap's plots, files without pickle, and every refusal of bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rsa2c
from rsa2c.attribution import Explanation, explain, prototypes
from rsa2c.attribution.prototypes import familiarity
from rsa2c.errors import ConfigError, DataError, FileFormatError, NotFoundError
from rsa2c.kernel.dictionary import Dictionary

NAMES = ("angle", "speed", "force")


@pytest.fixture(scope="module")
def function():
    rng = np.random.default_rng(0)
    mean, std = np.array([1.0, -2.0, 0.0]), np.array([2.0, 0.5, 10.0])
    kernel = rsa2c.RBF(1.5, rsa2c.Metric(mean, std, 10.0, np.ones(3)))
    dictionary = Dictionary(kernel, mean + std * rng.normal(size=(12, 3)), np.ones(12))
    return rsa2c.RKHSFunction(dictionary, rng.normal(size=(12, 2)), ("u", "v"), np.array([3.0, -1.0]))


@pytest.fixture(scope="module")
def states():
    rng = np.random.default_rng(1)
    return rng.normal(size=(15, 3)) * [2.0, 0.5, 10.0] + [1.0, -2.0, 0.0]


@pytest.fixture(scope="module")
def explanation(function, states):
    return explain(function, states[:5], states[5:], feature_names=NAMES, interactions=True)


def test_values_are_in_raw_units_and_add_up_to_the_function(function, states, explanation):
    assert explanation.values.shape == (5, 3, 2)
    assert explanation.base_values.shape == (5, 2)
    np.testing.assert_array_equal(explanation.data, states[:5])
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, function(states[:5]), atol=1e-12)
    np.testing.assert_allclose(explanation.base_values[0], function(states[5:]).mean(axis=0), atol=1e-12)
    assert explanation.game == "KME, interventional, 10 background states, nodes=2, exact"


def test_a_single_state_and_single_outputs(function, states):
    one = explain(function, states[0], states, outputs=["v"])
    assert one.values.shape == (1, 3, 1)
    assert one.output_names == ("v",)


def test_looking_at_it(explanation):
    assert len(explanation) == 5
    assert explanation[1:3].values.shape == (2, 3, 2)
    np.testing.assert_array_equal(explanation[4].interactions[0], explanation.interactions[4])
    assert [len(part) for part in explanation] == [1] * 5
    assert explanation.output("v").values.shape == (5, 3, 1)
    names, sizes = zip(*explanation.top(2, "u"), strict=True)
    importance = np.abs(explanation.values[..., 0]).mean(axis=0)
    assert names == tuple(NAMES[i] for i in np.argsort(-importance)[:2])
    np.testing.assert_allclose(sizes, np.sort(importance)[:-3:-1])
    with pytest.raises(DataError, match="Unknown output 'w'"):
        explanation.output("w")
    with pytest.raises(DataError, match="Output number 2"):
        explanation.output(2)
    with pytest.raises(DataError, match="k of at least 1"):
        explanation.top(0)


def test_shapes_that_do_not_fit_are_refused(explanation):
    parts = {"values": explanation.values, "base_values": explanation.base_values, "data": explanation.data}
    rest = {"efficiency_residual": explanation.efficiency_residual, "game": "none", "output_names": ("u", "v")}
    with pytest.raises(DataError, match="needs 3 names, got 2"):
        Explanation(**parts, **rest, feature_names=("a", "b"))
    with pytest.raises(DataError, match=r"Explanation.data must have the shape \(5, 3\)"):
        Explanation(**{**parts, "data": explanation.data[:2]}, **rest, feature_names=NAMES)


def test_shap_draws_it(explanation, states):
    shap = pytest.importorskip("shap")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    both = explanation.to_shap()
    assert both.values.shape == (5, 3, 2)
    assert both[..., 0].values.shape == (5, 3)
    one = explanation.to_shap("u")
    assert one.values.shape == (5, 3)
    draw = (
        lambda: shap.plots.beeswarm(one, show=False),
        lambda: shap.plots.heatmap(one, show=False),
        lambda: shap.plots.waterfall(one[0], show=False),
        lambda: shap.plots.bar(one, show=False),
        lambda: shap.plots.scatter(one[:, 0], show=False),
    )
    import warnings

    for plot in draw:
        with warnings.catch_warnings():
            # shap's own: it draws with interfaces that NumPy and matplotlib have deprecated.
            warnings.filterwarnings("ignore", module=r"shap\..*")
            plot()
        pyplot.close("all")


def test_files_hold_everything_and_no_pickle(explanation, tmp_path):
    path = explanation.save(tmp_path / "values")
    assert path.name == "values.npz"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["values.npz"]
    loaded = Explanation.load(path)
    for name in ("values", "base_values", "data", "efficiency_residual", "interactions"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(explanation, name))
    assert loaded.std_error is None
    assert (loaded.feature_names, loaded.output_names) == (NAMES, ("u", "v"))
    assert loaded.game == explanation.game


@pytest.mark.parametrize("damage", ["truncate", "flip", "foreign", "pickled", "empty"])
def test_damaged_and_foreign_files_are_named(explanation, tmp_path, damage):
    path = explanation.save(tmp_path / "values.npz")
    content = path.read_bytes()
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        middle = 120
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    elif damage == "foreign":
        np.savez(path, x=np.ones(3))
    elif damage == "pickled":
        np.savez(path, metadata=np.array([{"format": 1}], dtype=object))
    else:
        path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"values\.npz"):
        Explanation.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(NotFoundError, match=r"nowhere\.npz"):
        Explanation.load(tmp_path / "nowhere.npz")


def bad(states, position=(2, 1), number=np.nan):
    states = states.copy()
    states[position] = number
    return states


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"states": lambda s: bad(s)}, DataError, "states must be finite, got nan in row 2, feature 1"),
        ({"background": lambda s: bad(s, number=np.inf)}, DataError, "background must be finite, got inf"),
        ({"background": lambda s: s[:0]}, DataError, "background must hold at least one state"),
        ({"states": lambda s: s[:0]}, DataError, "states must hold at least one state"),
        ({"states": lambda s: s[:, :2]}, DataError, r"states must have the shape \(N, 3\)"),
        ({"background": lambda s: s[None]}, DataError, r"background must have the shape \(N, 3\)"),
        ({"feature_names": lambda s: ("a", "b")}, DataError, "must have one name for each of the 3 features, got 2"),
        ({"feature_names": lambda s: ("a", "b", "a")}, DataError, "must differ, got a more than once"),
        ({"outputs": lambda s: ["w"]}, DataError, "unknown output 'w'; known are u, v"),
        ({"outputs": lambda s: [2]}, DataError, "output number 2 does not exist"),
        ({"groups": lambda s: {"g": ["angel"]}}, DataError, "Did you mean 'angle'"),
        ({"groups": lambda s: {"g": []}}, DataError, "at least one feature"),
        ({"groups": lambda s: {"g": [0], "h": ["angle"]}}, DataError, "'angle' may be in one group, once"),
        ({"groups": lambda s: {"speed": [0]}}, DataError, "name of a feature outside it"),
        ({"method": lambda s: "kmee"}, ConfigError, "Did you mean 'kme'"),
        ({"nodes": lambda s: 0}, ConfigError, "nodes must be a positive number"),
        ({"nodes": lambda s: "all"}, ConfigError, "nodes must be a positive number"),
        ({"tolerance": lambda s: -1.0}, ConfigError, "tolerance must be a positive number"),
        ({"tolerance": lambda s: 0.1, "nodes": lambda s: 3}, ConfigError, "tolerance chooses the number of nodes"),
        ({"ridge": lambda s: 0.1}, ConfigError, "ridge is a setting of method='cme'.*Leave it out"),
        ({"rng": lambda s: np.random.default_rng(0)}, ConfigError, "rng is a setting of method='cme'"),
        ({"node": lambda s: 3}, ConfigError, "no option 'node'.*Did you mean 'nodes'"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(function, states, change, error, message):
    arguments = {"states": states, "background": states, "feature_names": NAMES}
    arguments |= {name: value(states) for name, value in change.items()}
    with pytest.raises(error, match=message):
        explain(function, **arguments)


def test_familiarity_is_one_at_a_remembered_state_and_nothing_far_away(function, states):
    remembered = function.remembered_states
    np.testing.assert_allclose(familiarity(function, remembered), 1.0, atol=1e-9)
    slowly = familiarity(function, remembered[0] + np.linspace(0, 50, 6)[:, None])
    assert np.all(np.diff(slowly) <= 0) and slowly[-1] < 0.01
    found = familiarity(function, states)
    np.testing.assert_allclose(found, [prototypes(function, s, 10**6).similarity.max() for s in states])


def test_nothing_is_familiar_beyond_the_clip(function):
    """A remembered state at the clip makes every state beyond it look the same to the function, but not familiar."""
    far = function.kernel.metric.mean + 1e3 * function.kernel.metric.std
    at_clip = Dictionary(function.kernel, far[None], np.ones(1))
    alone = replace(function, dictionary=at_clip, coefficients=function.coefficients[:1])
    assert prototypes(alone, far, 1).similarity[0] == 1.0
    assert familiarity(alone, far[None])[0] < 1e-100


def test_prototypes_are_signed_shares_that_add_up(function, states):
    found = prototypes(function, states[0], 4, feature_names=NAMES)
    assert len(found) == 4
    np.testing.assert_allclose(found.shares.sum(axis=0) + found.others + found.offset, function(states[0]), atol=1e-12)
    np.testing.assert_allclose(found.value, function(states[0]), atol=1e-12)
    size = np.abs(found.shares).sum(axis=1)
    assert np.all(np.diff(size) <= 0)
    np.testing.assert_allclose(found.states, function.remembered_states[found.numbers])
    similarity = function.kernel(function.coordinates(found.states), function.coordinates(states[:1]))[:, 0]
    np.testing.assert_allclose(found.similarity, similarity, rtol=1e-9)
    assert "others" in str(found)
    everything = prototypes(function, states[0], 100)
    np.testing.assert_array_equal(everything.others, 0.0)
    with pytest.raises(DataError, match="one state"):
        prototypes(function, states, 3)
    with pytest.raises(DataError, match="k of at least 1"):
        prototypes(function, states[0], 0)
