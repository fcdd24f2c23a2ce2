"""The folder the suites live in, outside the project: nothing that others wrote enters the tree.

Every archive that holds tests is pinned by its SHA-256; a toolchain is whatever its Debian suite carries.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlx-clients"
DEBIAN_SUITES = ("bookworm", "trixie", "forky")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DOWNLOAD_SECONDS = 600
PIP, QUIET = ("-m", "pip"), ("--quiet", "--no-input", "--disable-pip-version-check")


class UnobtainableError(Exception):
    """A suite cannot be brought onto this machine; the text says what is missing."""


def made_once(name: str, recipe: object, make: Callable[[Path], None]) -> Path:
    """The folder ``name`` as ``make`` fills it; made afresh when ``recipe`` (its ``repr``) is a new one."""
    folder = ROOT / f"{name}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:8]}"
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other runs of the tests wait until the folder is full
        if folder.is_dir():
            return folder
        for old in ROOT.glob(f"{name}-????????"):
            shutil.rmtree(old)
        # Not built aside and renamed: a virtual environment knows its own path.
        folder.mkdir()
        try:
            make(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder


def command(arguments: Sequence[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run to the end; its output. Raises ``UnobtainableError`` with the end of the output where it fails."""
    try:
        done = subprocess.run(
            arguments, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DOWNLOAD_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UnobtainableError(f"needs the command '{arguments[0]}'") from None
    except subprocess.TimeoutExpired:
        raise UnobtainableError(f"'{arguments[0]}' did not end in {DOWNLOAD_SECONDS} s") from None
    if done.returncode:
        shown = " ".join(map(str, arguments[:4]))
        raise UnobtainableError(f"'{shown} ...' failed:\n{done.stdout[-2000:]}")
    return done.stdout


def virtualenv(requirements: Sequence[str]) -> Path:
    """The Python of a virtual environment that holds ``requirements`` (each pinned with ``==``)."""

    def make(folder: Path) -> None:
        command([sys.executable, "-m", "venv", folder])
        command([folder / "bin/python", *PIP, "install", *QUIET, *requirements])

    return made_once(f"python-{requirements[0].partition('=')[0]}", requirements, make) / "bin/python"


@dataclass(frozen=True)
class Source:
    """An archive of tests. ``edits`` are what lets its tests find another port: (file, old text, new text)."""

    name: str
    version: str
    sha256: str
    edits: tuple[tuple[str, str, str], ...] = ()


def python_source(source: Source) -> Path:
    """The source package of a Python project, unpacked."""

    def download(folder: Path) -> Path:
        # Of this package alone: what pip builds it with may come as a wheel.
        exactly = ("--no-deps", "--no-binary", source.name, f"{source.name}=={source.version}")
        command([sys.executable, *PIP, "download", *QUIET, *exactly], cwd=folder)
        return folder / f"{source.name.replace('-', '_')}-{source.version}.tar.gz"

    return _unpacked(source, download)


def npm_source(source: Source, packages: Sequence[str]) -> Path:
    """A package of the npm registry, unpacked, with ``packages`` where node finds them."""

    def download(folder: Path) -> Path:
        command(["npm", "pack", "--silent", f"{source.name}@{source.version}"], cwd=folder)
        return folder / f"{source.name}-{source.version}.tgz"

    def dependencies(folder: Path) -> None:
        # Into the folder above, where node finds them and no package.json asks for more.
        quietly = ("--silent", "--no-save", "--ignore-scripts")
        command(["npm", "install", *quietly, "--prefix", folder.parent, *packages], cwd=folder.parent)

    return _unpacked(source, download, dependencies)


def npm_packages(name: str, packages: Sequence[str]) -> Path:
    """A folder with packages of the npm registry (each ``name@version``) and what they need in ``node_modules``."""

    def make(folder: Path) -> None:
        command(
            ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, *packages], cwd=folder
        )

    return made_once(f"npm-{name}", packages, make)


def debian_source(source: Source) -> Path:
    """The upstream archive of a Debian source package, unpacked; its version is Debian's, such as ``1.3.2-1``."""

    def download(folder: Path) -> Path:
        # A mirror may lack another part of the package: what counts is that this archive arrives.
        fetch = ["apt-get", "source", "--download-only", "--tar-only", f"{source.name}={source.version}"]
        try:
            command(fetch, cwd=folder, env=_apt())
        except UnobtainableError:
            if not list(folder.glob("*.orig.tar.*")):
                raise
        return next(folder.glob(f"{source.name}_*.orig.tar.*"))

    return _unpacked(source, download)


def debian_packages(name: str, packages: Sequence[str], edits: Sequence[tuple[str, str, str]] = ()) -> Path:
    """Debian packages (each ``name/suite``) unpacked into one folder and edited, nothing of it installed."""

    def make(folder: Path) -> None:
        command(["apt-get", "download", *packages], cwd=folder, env=_apt())
        for archive in sorted(folder.glob("*.deb")):
            command(["dpkg-deb", "--extract", archive, folder])
            archive.unlink()
        for edit in edits:
            _edit(folder, *edit)

    return made_once(name, (packages, edits), make)


def _unpacked(source: Source, download: Callable[[Path], Path], more: Callable[[Path], None] | None = None) -> Path:
    def make(folder: Path) -> None:
        archive = download(folder)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != source.sha256:
            raise UnobtainableError(f"{archive.name} has SHA-256 {found}; pinned is {source.sha256}")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        for edit in source.edits:
            _edit(_only_folder(folder), *edit)
        if more:
            more(_only_folder(folder))

    return _only_folder(made_once(source.name, source, make))


def _edit(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    if old not in text:
        raise UnobtainableError(f"{file} has no '{old}' to edit")
    (folder / file).write_text(text.replace(old, new))


def _only_folder(folder: Path) -> Path:
    return next(path for path in sorted(folder.iterdir()) if path.is_dir() and path.name != "node_modules")


def _apt() -> dict[str, str]:
    """The environment that gives apt lists of its own, with Debian's sources, from the mirror this machine uses."""

    def make(folder: Path) -> None:
        mirror = _mirror()
        lines = [
            f"{kind} [signed-by={KEYRING}] {mirror} {suite} main"
            for suite in DEBIAN_SUITES
            for kind in ("deb", "deb-src")
        ]
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "sources.list").write_text("\n".join(lines) + "\n")
        (folder / "apt.conf").write_text(
            f'Dir::State "{folder}/state";\nDir::Cache "{folder}/cache";\n'
            f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
            'Dir::Etc::preferencesparts "/dev/null";\nAcquire::Languages "none";\nAPT::Sandbox::User "root";\n'
        )
        command(["apt-get", "update", "-qq"], env={"APT_CONFIG": str(folder / "apt.conf")})

    return {"APT_CONFIG": str(made_once("apt", DEBIAN_SUITES, make) / "apt.conf")}


def _mirror() -> str:
    """Where this machine takes Debian's own packages from (``$DEBIAN_MIRROR``, else as apt is set up)."""
    if mirror := os.environ.get("DEBIAN_MIRROR"):
        return mirror
    listed = command(["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"])
    for origin, label, uri in (line.split(" ", 2) for line in listed.splitlines() if line.count(" ") == 2):
        if (origin, label) == ("Debian", "Debian"):
            return uri
    raise UnobtainableError("needs Debian's packages (run 'apt-get update' once, or set $DEBIAN_MIRROR)")
