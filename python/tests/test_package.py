"""What is in the wheel, and what is not."""

from __future__ import annotations

import doctest
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import nearprint
import pytest
import tomllib
from nearprint import _native, errors

PACKAGE = pathlib.Path(nearprint.__file__).parent


def names(root: pathlib.Path) -> list[str]:
    """The packages that the native module is made of."""
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "--edges=normal", "--prefix=none", "--format={p}"],
        cwd=root / "python",
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split()[0] for line in tree.stdout.splitlines() if line]


def test_the_installed_package_is_tested(root: pathlib.Path) -> None:
    assert not PACKAGE.is_relative_to(root / "python"), "run in an environment"
    for name in ("py.typed", "_native.pyi", "errors.py"):
        assert (PACKAGE / name).is_file(), name
    assert pathlib.Path(_native.__file__).name == "_native.abi3.so"


def test_no_service_is_compiled(root: pathlib.Path) -> None:
    all_names = names(root)
    assert "nearprint-text" in all_names and "nearprint-index" in all_names
    service = [
        "arrow",
        "axum",
        "clap",
        "hyper",
        "http",
        "http-body",
        "mio",
        "parquet",
        "reqwest",
        "ring",
        "rustls",
        "tokio",
        "tower",
        "ureq",
        "jemallocator",
        "tikv-jemallocator",
        "tikv-jemalloc-sys",
        "mimalloc",
        "snmalloc-rs",
    ]
    begin = tuple(f"{name}-" for name in service)
    assert [name for name in all_names if name in service or name.startswith(begin)] == []
    assert {name for name in all_names if name.startswith("nearprint")} == {
        "nearprint-fingerprint",
        "nearprint-index",
        "nearprint-machine",
        "nearprint-python",
        "nearprint-text",
    }


def test_the_native_module_has_no_allocator_of_its_own() -> None:
    """One with thread-local data cannot be loaded by an interpreter that has begun (PyO3/pyo3#678)."""
    symbols = subprocess.run(
        ["nm", _native.__file__], capture_output=True, text=True, check=True
    ).stdout
    assert "PyInit__native" in symbols, "the symbols are there to be searched"
    found = re.findall(r"\S*\b(?:_rjem_|_?je_|mi_)(?:malloc|free|mallocx|calloc)\w*", symbols)
    assert found == []


def test_the_locked_versions_are_those_of_the_service(root: pathlib.Path) -> None:
    """Unicode tables and dictionaries are part of a recipe, so both must have the same."""

    def locked(path: pathlib.Path) -> dict[str, set[str]]:
        versions: dict[str, set[str]] = {}
        for package in tomllib.loads(path.read_text())["package"]:
            versions.setdefault(package["name"], set()).add(package["version"])
        return versions

    service = locked(root / "Cargo.lock")
    ours = locked(root / "python" / "Cargo.lock")
    other = {
        name: (versions, service[name])
        for name, versions in ours.items()
        if name in service and not versions <= service[name]
    }
    assert other == {}, "cargo update --manifest-path python/Cargo.toml --precise VERSION NAME"


def test_the_version_is_that_of_the_service(root: pathlib.Path) -> None:
    def manifest(path: str) -> dict:
        return tomllib.loads((root / path).read_text())

    service = manifest("Cargo.toml")["workspace"]["package"]
    ours = manifest("python/Cargo.toml")["package"]
    assert {key: ours[key] for key in service} == service


def test_every_code_of_the_service_is_a_class(root: pathlib.Path) -> None:
    source = (root / "crates" / "wire" / "src" / "code.rs").read_text()
    table = source[source.index("codes! {\n") : source.index("\n}\n", source.index("codes! {\n"))]
    codes = dict(re.findall(r'(\w+) = \w+, "(\w+)"', table))
    assert len(codes) > 40
    ours = {kind.__name__: code for code, kind in errors.BY_CODE.items()}
    assert ours == codes
    assert isinstance(
        errors.of_problem({"code": "overloaded", "detail": "later"}), errors.Overloaded
    )
    later = errors.of_problem({"code": "of_a_newer_service", "title": "Something new"})
    assert type(later) is nearprint.NearprintError and later.code == "of_a_newer_service"


def documented() -> list[tuple[str, str]]:
    """Everything of the native module with a documentation, and the package's own."""
    found = [("nearprint", inspect.getdoc(nearprint) or "")]
    for name in nearprint.__all__:
        if name in ("Client", "AsyncClient"):
            continue
        thing = getattr(nearprint, name)
        found.append((name, inspect.getdoc(thing) or ""))
        if inspect.isclass(thing):
            members = [(f"{name}.{member}", getattr(thing, member)) for member in vars(thing)]
            found += [
                (path, inspect.getdoc(member) or "")
                for path, member in members
                if path.count("_") < 4
            ]
    return found


@pytest.mark.parametrize(("name", "text"), [pair for pair in documented() if ">>>" in pair[1]])
def test_the_examples_of_the_documentation_run(name: str, text: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples
    failed: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=failed.append)
    assert failed == []


def print_into(printed: list[str]) -> Callable[..., None]:
    return lambda *shown: printed.append(" ".join(map(str, shown)))


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_examples_of_the_manuals_run(page: str, root: pathlib.Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / page).read_text(), flags=re.DOTALL)
    blocks = [block for block in blocks if "import nearprint" in block and "Client" not in block]
    assert blocks
    for block in blocks:
        printed: list[str] = []
        exec(block, {"print": print_into(printed)})  # noqa: S102 - the manual's own code
        shown = re.findall(r"print\(.*# -> (.*)", block)
        assert [line for line in shown if line not in printed] == [], printed


def test_every_function_and_class_has_documentation_and_most_have_examples() -> None:
    texts = dict(documented())
    assert [name for name, text in texts.items() if "." not in name and not text] == []
    assert sum(">>>" in text for text in texts.values()) >= 9


def test_the_stubs_agree_with_the_module(tmp_path: pathlib.Path) -> None:
    check = [sys.executable, "-m", "mypy.stubtest", "nearprint._native"]
    run = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_types_reach_the_user(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import nearprint\n"
        "reveal_type(nearprint.fingerprint('tea'))\n"
        "reveal_type(nearprint.explain('tea', 'tee')['distance'])\n"
        "reveal_type(nearprint.Index().query(7)[0].similarity)\n"
        "nearprint.fingerprint(None)\n"
    )
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)]
    output = subprocess.run(check, capture_output=True, text=True, check=False).stdout
    for revealed in ('"builtins.int"', '"builtins.float | None"', "[arg-type]"):
        assert revealed in output or revealed.replace("builtins.", "") in output, output
    assert "Found 1 error" in output


def test_the_types_of_both_clients_reach_the_user(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from collections.abc import AsyncIterator, Iterator\n"
        "from typing import assert_type\n"
        "from nearprint import NearprintError\n"
        "from nearprint.client import AsyncClient, Client\n"
        "from nearprint.client.messages import QueryReply\n"
        "def blocking(client: Client) -> None:\n"
        "    assert_type(client.query('tea', distance=3), QueryReply)\n"
        "    assert_type(client.query_many(['tea']), Iterator[QueryReply | NearprintError])\n"
        "    client.count(7)\n"
        "async def asynchronous(client: AsyncClient) -> None:\n"
        "    assert_type(await client.query('tea', distance=3), QueryReply)\n"
        "    assert_type(client.query_many(['tea']), AsyncIterator[QueryReply | NearprintError])\n"
        "    await client.count(7)\n"
    )
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)]
    output = subprocess.run(check, capture_output=True, text=True, check=False).stdout
    assert output.count("[arg-type]") == 2 and "Found 2 errors" in output, output


# What users import; the client has other modules for itself.
EXPORTED = {
    "nearprint",
    "nearprint.client",
    "nearprint.client.asynchronous",
    "nearprint.client.blocking",
    "nearprint.client.messages",
    "nearprint.datatrove",
    "nearprint.errors",
    "nearprint.scrapy",
    "nearprint.spark",
}

# Its base class is of datatrove, which has no types.
UNKNOWN = ["nearprint.datatrove.NearprintFilter"]


def test_every_type_that_is_exported_is_known_to_pyright(tmp_path: pathlib.Path) -> None:
    programs = pathlib.Path(sys.prefix, "bin")
    check = [programs / "basedpyright", "--verifytypes", "nearprint", "--ignoreexternal"]
    paths = os.pathsep.join([str(programs), os.environ["PATH"]])
    run = subprocess.run(
        [*check, "--outputjson"],
        env={**os.environ, "PATH": paths, "VIRTUAL_ENV": sys.prefix},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    report = json.loads(run.stdout)["typeCompleteness"]
    modules = {module["name"] for module in report["modules"]}
    assert modules >= EXPORTED

    def module_of(name: str) -> str:
        return max((module for module in modules if f"{name}.".startswith(f"{module}.")), key=len)

    exported = [
        symbol
        for symbol in report["symbols"]
        if symbol["isExported"] and module_of(symbol["name"]) in EXPORTED
    ]
    known = [symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"] for symbol in exported]
    assert {"nearprint.Index", "nearprint.dedup"} <= {symbol["name"] for symbol in exported}
    names = [
        symbol["name"] for symbol, is_known in zip(exported, known, strict=True) if not is_known
    ]
    assert names == UNKNOWN


def test_a_program_of_every_call_has_the_types_of_the_package(tmp_path: pathlib.Path) -> None:
    program = pathlib.Path(__file__).with_name("every_call.py")
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)]
    checked = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert checked.returncode == 0, checked.stdout
    subprocess.run([sys.executable, "-W", "error", str(program)], check=True, capture_output=True)
    words = set(re.findall(r"\w+", program.read_text()))
    things = [nearprint, nearprint.Index, nearprint.FingerprintArray, nearprint.Hit]
    things += [nearprint.Checked, nearprint.Sketch, nearprint.SpectralModel, nearprint.Client]
    names = {name for thing in things for name in getattr(thing, "__all__", vars(thing))}
    assert [name for name in sorted(names - words) if not name.startswith("_")] == []
