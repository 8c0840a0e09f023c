"""The shape of the house: layers point one way, files and functions stay short, help is quick."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from architecture import LAYERS, SOURCE, arrows, imports, layer, modules, unit

LONGEST_FUNCTION, LONGEST_FILE = 50, 300


def test_every_package_and_top_level_module_has_a_layer():
    units = {unit(name) for name in modules()} - {"rsa2c"}
    assert units == {name for names in LAYERS for name in names}
    assert len([path for path in SOURCE.glob("*.py") if path.name != "__init__.py"]) <= 12


def test_no_import_points_to_a_higher_layer():
    back = {arrow: places for arrow, places in arrows().items() if layer(arrow[1]) > layer(arrow[0])}
    assert not back


def test_no_two_units_import_each_other():
    """Not for type checking either, but for the agent and what takes one as an argument."""
    pairs = {frozenset(arrow) for arrow in arrows() if arrow[::-1] in arrows()}
    assert pairs <= {frozenset({"agent", "progress"}), frozenset({"agent", "sb3"})}


@pytest.mark.parametrize("package", ["kernel", "attribution"])
def test_mathematics_knows_no_environment(package):
    for name, path in modules().items():
        if unit(name) == package:
            assert not [each for each, _ in imports(path) if each.startswith(("gymnasium", "rsa2c.envs"))], name


def functions():
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                compiled = any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)
                yield name, node, compiled


def test_functions_and_files_are_short():
    long = [f"{name}.{node.name}" for name, node, compiled in functions()
            if not compiled and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION]  # fmt: skip
    assert not long
    assert not [name for name, path in modules().items() if path.read_text().count("\n") > LONGEST_FILE]


@pytest.mark.parametrize("code", ["import rsa2c", "from rsa2c.cli import main; main(['--help'])"])
def test_imports_and_help_load_little(code):
    heavy = "{'numba', 'scipy', 'gymnasium', 'torch', 'rsa2c.agent', 'rsa2c.algorithm'}"
    script = f"import sys\n{code}\nassert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


def test_every_public_name_is_found():
    import rsa2c
    from rsa2c import envs

    for package in (rsa2c, envs):
        assert all(getattr(package, name) is not None for name in package.__all__)
        assert set(package.__all__) <= set(dir(package))
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = package.nothing


@pytest.mark.parametrize("code", [
    "import gymnasium, rsa2c; gymnasium.make('rsa2c/LQR-v0')",
    "import gymnasium; gymnasium.make('rsa2c.envs.lqr:rsa2c/LQR-v0')",
    "import rsa2c; rsa2c.make_env; import gymnasium; gymnasium.make('rsa2c/LQR-v0')",
])  # fmt: skip
def test_gymnasium_finds_our_environment(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_are_attributes_of_the_package():
    code = "import rsa2c; rsa2c.errors.ConfigError, rsa2c.attribution.explain, rsa2c.report.write_report"
    subprocess.run([sys.executable, "-c", code], check=True)
