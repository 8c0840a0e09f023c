"""Builds one self-contained HTML file from a Jinja2 template, a style sheet and JavaScript modules.

A page opened from a file cannot import modules, so they are joined here in the order of their imports. Each module
becomes a function that returns its exports.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import jinja2

from rsa2c.report.encoding import to_json

FOLDER = resources.files("rsa2c.report")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+)\.mjs";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def render(template: str, entry: str, document: dict[str, Any], **context: Any) -> str:
    """The rendered template, in which the module `entry` runs on `document`."""
    loader = jinja2.FunctionLoader(lambda name: (FOLDER / name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template(template).render(
        style=(FOLDER / "style.css").read_text(encoding="utf-8"),
        script=bundled(entry),
        data=to_json(document),
        document=document,
        **context,
    )


def bundled(entry: str) -> str:
    """The module `entry` and everything it imports, as one script."""
    order: list[str] = []
    sources: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in sources:
            return
        sources[name] = (FOLDER / "js" / f"{name}.mjs").read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(sources[name]):
            visit(imported)
        order.append(name)

    visit(entry)
    return "\n".join(_wrapped(name, sources[name]) for name in order)


def _wrapped(name: str, source: str) -> str:
    """A module as `const name_module = (() => {...; return {its exports}})();`."""
    if source.count("\nimport ") + source.startswith("import ") != len(_IMPORT.findall(source)):
        raise ValueError(f'{name}.mjs: imports must have the form `import {{ a, b }} from "./name.mjs";` on one line.')
    body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {found[2]}_module;", source)
    exports = _EXPORT.findall(source)
    body = _EXPORT.sub("", body)
    return f"const {name}_module = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"
