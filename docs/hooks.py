"""What the site takes from outside docs/: the README as its home page, measurements, and the source that pages name;
and notebooks of the examples and of the pages that have Python code.

Links in the repository are relative to its files, so that they work where the files are read as they are. Here they
become links between pages: `[`lstd`](../src/rsa2c/algorithm/critics.py)` leads to the line where `lstd` begins.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
HOME = "README.md"
TEXTS = (HOME, "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(\[([^\]]*)\])\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?:/\*|#) (\w+\.(?:c|py|yaml))\b")
SOURCE = re.compile(r"\]\((?:\.\./)?((?:src/rsa2c|examples)/[\w/]+\.py)\)")
SHOWN = ("src/rsa2c/", "examples/")


def on_files(files: Files, config: Any) -> Files:
    """Pages from outside docs/."""
    measured = sorted(ROOT.glob("results/*.md"))
    pages = {site_path(name): (ROOT / name).read_text(encoding="utf-8") for name in TEXTS}
    pages |= {f"results/{path.name}": path.read_text(encoding="utf-8") for path in measured}
    pages["measurements.md"] = measurements(measured)
    for name in sorted({name for path in ROOT.glob("docs/*.md") for name in SOURCE.findall(path.read_text("utf-8"))}):
        pages[site_path(name)] = listing(name)
    for path in ROOT.glob("docs/*.md"):
        if "```python" in (text := path.read_text(encoding="utf-8")):
            pages[f"notebooks/{path.stem}.ipynb"] = notebook(text)
    for path in ROOT.glob("examples/*.py"):
        pages[f"notebooks/source/examples/{path.stem}.ipynb"] = notebook(example(path))
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The page with its links as the site has them."""
    where = page.file.src_uri
    folder = posixpath.dirname(repository_path(where))

    def linked(found: re.Match[str]) -> str:
        text, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith(SHOWN) and path.endswith(".py"):
            anchor = f"#__codelineno-0-{line_of(ROOT / path, label.strip('`'))}"
        return f"{text}({posixpath.relpath(site_path(path), posixpath.dirname(where) or '.')}{anchor})"

    made = f"notebooks/{where.removesuffix('.md')}.ipynb"
    if files.get_file_from_path(made):
        markdown += f"\n\n[This page as a notebook]({posixpath.relpath(made, posixpath.dirname(where) or '.')})\n"
    return LINK.sub(linked, markdown)


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path == HOME:
        return "index.md"
    if path.startswith(SHOWN) and path.endswith(".py"):
        return "source/" + path.removeprefix("src/rsa2c/").removesuffix(".py") + ".md"
    return path.removeprefix("docs/")


def repository_path(uri: str) -> str:
    """Where a page of the site is in the repository."""
    if uri == "index.md":
        return HOME
    return uri if uri in TEXTS or uri.startswith("results/") else f"docs/{uri}"


def line_of(path: Path, name: str) -> int:
    """The line in which a function, class, method or constant of a file begins: `lstd`, `Metric.rescaled`; 1 for text
    that is no such name."""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    line = 1
    for part in name.split("."):
        node = next((each for each in body if part in names_of(each)), None)
        if node is None:
            return 1
        line, body = node.lineno, getattr(node, "body", [])
    return line


def names_of(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {each.id for each in targets if isinstance(each, ast.Name)}


def listing(path: str) -> str:
    """The page of a source file or an example."""
    code = (ROOT / path).read_text(encoding="utf-8")
    title = path.removeprefix("src/")
    return f'---\nsearch:\n  exclude: true\n---\n# {title}\n\n````python linenums="1"\n{code}````\n'


def measurements(paths: list[Path]) -> str:
    """The page that lists the measurements."""
    titles = [(path.name, path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")) for path in paths]
    rows = "\n".join(f"- [{title}](../results/{name})" for name, title in titles)
    return f"# Measurements\n\nEach page names the command and the commit behind its numbers.\n\n{rows}\n"


def example(path: Path) -> str:
    """An example as a page: what its docstring says, and the code."""
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text)
    code = "".join(text.splitlines(True)[module.body[0].end_lineno :])
    return f"{ast.get_docstring(module)}\n\n```python\n{code}```\n"


def notebook(text: str) -> str:
    """A page as a notebook; its blocks do there what `tests/pages.py` does."""
    cells, end = [], 0
    for block in BLOCK.finditer(text):
        language, code = block.groups()
        if language == "text":
            continue
        cells += [_cell("markdown", text[end : block.start()])]
        cells += [_cell("code", each) for each in _code(language, code)]
        end = block.end()
    cells.append(_cell("markdown", text[end:]))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(cells)]
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _code(language: str, code: str) -> list[str]:
    """The cells of a block: a file is written, a script is run by the shell, Python is run."""
    named = NAME.match(code)
    file = [] if named is None else [f"%%writefile {named[1]}\n{code}"]
    return file + {"python": [code], "sh": [f"%%sh\n{code}"]}.get(language, [])


def _cell(kind: str, text: str) -> dict[str, Any]:
    rest = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.strip(), **rest}
