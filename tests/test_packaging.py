"""The files around the library agree with each other and with it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import hypermask

CONDA_NAMES = {"torch": "pytorch"}
# On PyPI, and not on conda-forge.
PIP_ONLY = {"hypnettorch", "snakemake", "snakemake-executor-plugin-slurm"}
TARGETS = ("paper", "test", "test-slurm", "notebooks", "verify", "lab", "lint", "clean", "setup", "help")


@pytest.fixture(scope="module")
def pyproject(project_root: Path) -> dict:
    return tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def requirements(pyproject: dict) -> dict[str, SpecifierSet]:
    """Every package that `make setup` asks for, with its range."""
    project = pyproject["project"]
    lines = project["dependencies"] + project["optional-dependencies"]["test"]
    return {canonicalize_name(r.name): r.specifier for r in map(Requirement, lines)}


@pytest.fixture(scope="module")
def lock(project_root: Path) -> dict[str, Version]:
    lines = (project_root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pins}


@pytest.fixture(scope="module")
def environment(project_root: Path) -> dict:
    return yaml.safe_load((project_root / "environment.yml").read_text(encoding="utf-8"))


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEFILES")}
    return subprocess.run(["make", *arguments], cwd=folder, env=inherited, capture_output=True, text=True, timeout=60)


@pytest.fixture
def checkout(project_root: Path, tmp_path: Path) -> Path:
    """A folder with a space in its name that holds only what the Makefile's set-up looks at."""
    folder = tmp_path / "a copy"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(project_root / name, folder)
    return folder


@pytest.fixture
def installed(checkout: Path) -> Path:
    """The same folder as a finished set-up leaves it."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (checkout / ".venv" / ".installed").write_text(f"{checkout.resolve()}\n", encoding="utf-8")
    return checkout


# --- pyproject.toml, environment.yml, requirements.lock -------------------------------------------


def test_conda_environment_names_the_same_packages_and_ranges(environment, requirements, pyproject):
    conda = [Requirement(line) for line in environment["dependencies"] if isinstance(line, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert "-e ." in pip
    by_pip = {canonicalize_name(r.name): r.specifier for r in map(Requirement, (p for p in pip if p != "-e ."))}
    by_conda = {r.name: r.specifier for r in conda}

    assert by_conda.pop("python") == SpecifierSet(pyproject["project"]["requires-python"])
    assert by_conda.pop("pip") == SpecifierSet()
    assert by_pip == {name: requirements[name] for name in PIP_ONLY}
    assert by_conda == {
        CONDA_NAMES.get(name, name): specifier for name, specifier in requirements.items() if name not in PIP_ONLY
    }


def test_conda_environment_uses_conda_forge_alone(environment):
    assert environment["name"] == "hypermask"
    assert environment["channels"] == ["conda-forge", "nodefaults"]


def test_lock_pins_every_requirement_within_its_range(lock, requirements):
    missing = sorted(set(requirements) - set(lock))
    assert missing == []
    outside = {name: str(lock[name]) for name, specifier in requirements.items() if lock[name] not in specifier}
    assert outside == {}


def test_lock_holds_versions_only(project_root, lock):
    text = (project_root / "requirements.lock").read_text(encoding="utf-8")
    assert "# Made with: Python 3.11 on linux-x86_64\n" in text
    assert not re.search(r"://|@|--", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
    assert [name for name in lock if name.startswith(("nvidia", "cuda", "triton"))] == []
    assert "hypermask" not in lock


def test_ranges_the_documentation_promises(requirements, pyproject):
    assert pyproject["project"]["requires-python"] == ">=3.11"
    assert str(requirements["torch"]) == ">=2.10"
    assert str(requirements["hypnettorch"]) == "==0.0.4"
    extras = pyproject["project"]["optional-dependencies"]
    assert extras["batch"] == ["snakemake>=9,<10", "snakemake-executor-plugin-slurm>=2,<3"]
    assert set(extras["batch"]) <= set(extras["test"])


def test_version_and_command_come_from_the_package(pyproject, project_root):
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "hypermask.__version__"}
    assert pyproject["project"]["scripts"] == {"hypermask": "hypermask.cli:main"}
    citation = yaml.safe_load((project_root / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == hypermask.__version__


def test_every_data_file_of_the_package_is_packaged(pyproject, project_root):
    package = project_root / "hypermask"
    globs = pyproject["tool"]["setuptools"]["package-data"]["hypermask"]
    packaged = {path for pattern in globs for path in package.glob(pattern) if path.is_file()}
    present = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in present if path.suffix != ".py"} == packaged
    assert [pattern for pattern in globs if not any(package.glob(pattern))] == []


def test_every_folder_with_modules_is_a_package(project_root):
    folders = {path.parent for path in (project_root / "hypermask").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


OUTSIDE_A_CHECKOUT = """
import hypermask.cli
print(hypermask.__file__)
for command in ("status", "sweep fig06 --dry-run", "regenerate", "regenerate fig06", "notebooks"):
    print(command, "ends with", hypermask.cli.main(command.split()))
"""


def test_an_installed_package_outside_a_checkout(project_root, tmp_path):
    installed, elsewhere = tmp_path / "site-packages", tmp_path / "elsewhere"
    shutil.copytree(
        project_root / "hypermask", installed / "hypermask", ignore=shutil.ignore_patterns("__pycache__", "mnist")
    )
    elsewhere.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", OUTSIDE_A_CHECKOUT],
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    lines = result.stdout.splitlines()
    assert lines[0] == str(installed / "hypermask" / "__init__.py"), result.stderr
    assert [line for line in lines if " ends with " in line] == [
        "status ends with 0",
        "sweep fig06 --dry-run ends with 0",
        "regenerate ends with 2",
        "regenerate fig06 ends with 2",
        "notebooks ends with 2",
    ]
    sentence = "hypermask: there are no notebooks here; run it inside a checkout, or set HYPERMASK_ROOT to one."
    assert result.stderr.splitlines() == [sentence] * 3
    assert list(elsewhere.iterdir()) == []


# --- Makefile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_make_has_target(target, installed):
    result = make(installed, "-n", target)
    assert result.returncode == 0, result.stderr


def test_make_help_lists_the_targets(checkout):
    listed = re.findall(r"^make ([\w-]+)", make(checkout).stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(TARGETS)


def commands(folder: Path, target: str) -> list[str]:
    lines = make(folder, "-n", target).stdout.splitlines()
    return [line.removeprefix(".venv/bin/python -m ") for line in lines if not line.startswith("echo ")]


def test_make_paper_trains_and_regenerates(installed):
    assert commands(installed, "paper") == [
        "hypermask run split_mnist/hypermask-t --seed 1",
        "hypermask regenerate",
    ]


def test_make_test_is_ruff_first_and_one_pytest_call_last(installed):
    assert commands(installed, "test") == ["ruff check .", "ruff format --check .", "pytest"]


def test_make_clean_keeps_runs_and_records(installed):
    kept = [installed / "runs" / "run.json", installed / "records" / "record.json"]
    gone = [installed / "build" / "out.png", installed / "hypermask" / "__pycache__" / "x.pyc"]
    for path in kept + gone:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("tests", "notebooks"):
        (installed / name).mkdir()

    assert make(installed, "clean").returncode == 0
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in [*gone, installed / ".venv"] if path.exists()] == []


def test_finished_setup_is_not_repeated(installed):
    result = make(installed, "setup")
    assert (result.returncode, result.stdout) == (0, "setup: .venv is up to date\n")


@pytest.mark.parametrize("file", ["pyproject.toml", "requirements.lock"])
def test_setup_is_stale_when_its_inputs_change(file, installed):
    later = (installed / ".venv" / ".installed").stat().st_mtime + 10
    os.utime(installed / file, (later, later))
    assert "-m venv --clear .venv" in make(installed, "-n", "setup").stdout


def test_setup_is_stale_when_the_folder_was_moved(installed):
    moved = installed.rename(installed.parent / "moved")
    assert "-m venv --clear .venv" in make(moved, "-n", "setup").stdout


def test_setup_is_stale_when_its_python_is_gone(installed):
    (installed / ".venv" / "bin" / "python").unlink()
    assert "-m venv --clear .venv" in make(installed, "-n", "setup").stdout


def stand_in_python(folder: Path, script: str) -> str:
    path = folder / "python-stand-in"
    path.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return f"PYTHON=./{path.name}"


def test_setup_is_stale_when_another_python_is_named(installed):
    same = stand_in_python(installed, f'exec {sys.executable} "$@"')
    assert make(installed, "setup", same).stdout == "setup: .venv is up to date\n"
    other = stand_in_python(installed, 'case "$2" in *print*) echo "4 0";; esac')
    assert "-m venv --clear .venv" in make(installed, "-n", "setup", other).stdout
    missing = make(installed, "setup", "PYTHON=./no-such-python")
    assert missing.returncode != 0
    assert "needs Python 3.11 or newer and ./no-such-python is not found" in missing.stderr
    assert (installed / ".venv" / ".installed").exists()


def test_setup_refuses_an_old_python_in_one_sentence(checkout):
    old = stand_in_python(checkout, 'case "$2" in *print*) echo "Python 3.10";; *) exit 1;; esac')
    result = make(checkout, "setup", old)
    assert result.returncode != 0
    assert result.stderr.splitlines()[0] == (
        "setup: HyperMask needs Python 3.11 or newer and ./python-stand-in is Python 3.10: "
        "install one and name it, for example 'make setup PYTHON=python3.12'."
    )
    assert not (checkout / ".venv").exists()


# Makes a .venv whose Python claims the platform it is told and whose pip notes its arguments and fails.
MAKES_FAILING_ENVIRONMENT = f"""
if [ "$2" != venv ]; then exec {sys.executable} "$@"; fi
mkdir -p .venv/bin
cat > .venv/bin/python <<'END'
#!/bin/bash
if [ "$1" = -m ]; then echo "$@" > pip-arguments; exit 1; fi
echo "$PLATFORM_FOR_TEST"
END
chmod +x .venv/bin/python
"""


@pytest.mark.parametrize(
    ("platform", "constraints", "message"),
    [
        (
            "Python 3.11 on linux-x86_64",
            " -c requirements.lock",
            "setup: install the exact versions of requirements.lock",
        ),
        (
            "Python 3.12 on macosx-14.0-arm64",
            "",
            "setup: requirements.lock is for Python 3.11 on linux-x86_64, this is Python 3.12 on "
            "macosx-14.0-arm64: install the newest versions in pyproject.toml's ranges",
        ),
    ],
)
def test_lock_is_used_where_it_fits_and_a_failed_setup_stays_stale(
    platform, constraints, message, checkout, monkeypatch
):
    monkeypatch.setenv("PLATFORM_FOR_TEST", platform)
    result = make(checkout, "setup", stand_in_python(checkout, MAKES_FAILING_ENVIRONMENT))

    assert message in result.stdout.splitlines()
    arguments = (checkout / "pip-arguments").read_text(encoding="utf-8").strip()
    assert arguments == f"-m pip install --disable-pip-version-check -e .[test]{constraints}"
    assert result.returncode != 0
    assert not (checkout / ".venv" / ".installed").exists()
    assert "the next 'make' starts it again" in result.stderr


# --- licence, citation, continuous integration ----------------------------------------------------


def test_licence_is_the_full_apache_text(project_root, pyproject):
    text = (project_root / "LICENSE").read_text(encoding="utf-8")
    assert pyproject["project"]["license"] == "Apache-2.0"
    # The words alone, so that white space at the ends of lines does not matter.
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
    assert digest == "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"


def test_citation_prefers_the_paper(project_root):
    citation = yaml.safe_load((project_root / "CITATION.cff").read_text(encoding="utf-8"))
    paper = citation["preferred-citation"]
    assert citation["license"] == "Apache-2.0"
    assert paper["title"] == "HyperMask: Adaptive Hypernetwork-based Masks for Continual Learning"
    assert [author["family-names"] for author in paper["authors"]] == ["Książek", "Spurek"]
    assert paper["identifiers"][0]["value"] == "arXiv:2310.00113"


def test_ci_script_verifies_then_tests(project_root):
    script = project_root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == ["make verify", "make test-slurm", "make test"]


def test_workflow_runs_the_suite_on_the_supported_pythons(project_root):
    text = (project_root / ".github" / "workflows" / "notebooks.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12"]
    assert "make test" in [step.get("run") for step in job["steps"]]


# --- nothing of the machine that made them --------------------------------------------------------


def published_texts(root: Path) -> list[Path]:
    folders = ("notebooks", "records", "figures", "paper_tables")
    suffixes = (".ipynb", ".json", ".csv", ".md", ".tex")
    found = (path for folder in folders for path in (root / folder).rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if ".ipynb_checkpoints" not in path.parts)


def test_no_absolute_path_in_notebooks_records_and_outputs(project_root):
    foreign = re.compile(r"(?<![\w.])(/home/|/root/|/Users/|/tmp/|/mnt/|/opt/|[A-Z]:\\\\)\w*")
    own = (str(project_root), str(Path.home()))
    texts = {path: path.read_text(encoding="utf-8") for path in published_texts(project_root)}
    folders = {path.relative_to(project_root).parts[0] for path in texts}
    assert folders == {"notebooks", "records", "figures", "paper_tables"}
    hits = {
        str(path.relative_to(project_root)): foreign.findall(text)
        for path, text in texts.items()
        if foreign.search(text) or any(folder in text for folder in own if len(folder) > 2)
    }
    assert hits == {}


def test_notebooks_name_the_kernel_everyone_has(project_root):
    notebooks = sorted((project_root / "notebooks").glob("*.ipynb"))
    kernels = {path.name: json.loads(path.read_text(encoding="utf-8"))["metadata"]["kernelspec"] for path in notebooks}
    assert {name: kernel["name"] for name, kernel in kernels.items()} == {name: "python3" for name in kernels}
    assert notebooks != []
