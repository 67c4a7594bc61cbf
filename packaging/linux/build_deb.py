"""Builds the Debian package: the window and the engine with what they import, without torch (the training kit).

`python packaging/linux/build_deb.py FOLDER` writes potluck_VERSION_ARCHITECTURE.deb there. It must run with the Python
that the package is for: Debian's own, whose version the package then depends on. Needs pip and dpkg-deb, no root.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = Path(__file__).with_name("deb")
HOME = "usr/lib/potluck"
IN_THE_KIT = ("torch", "transformers")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
ICON_PIXELS = (16, 24, 32, 48, 64, 128, 256, 512)

QT_USED = (
    "Core",
    "DBus",
    "Gui",
    "Network",
    "OpenGL",
    "Svg",
    "Widgets",
    "XcbQpa",
    "WaylandClient",
    "EglFSDeviceIntegration",
)
"""Qt modules that the window or its platform plugins load; tests/unit/packaging checks the first half."""
QT_LIBRARIES_KEPT = (*QT_USED, "WaylandEglClientHwIntegration", "WlShellIntegration")
DROPPED_FOLDERS = (
    "tests",
    "test",
    "__pycache__",
    "include",
    "examples",
    "glue",
    "typesystems",
    "scripts",
    "qml",
    "metatypes",
)
DROPPED_SUFFIXES = (".pyi", ".pyc", ".a", ".la", ".h", ".pxd", ".pyx", ".lib")
DROPPED_QT_PROGRAMS = (
    "assistant",
    "designer",
    "linguist",
    "lrelease",
    "lupdate",
    "uic",
    "rcc",
    "qmllint",
    "qmlformat",
    "qmlls",
    "qsb",
    "balsam",
    "balsamui",
    "svgtoqml",
    "qmlcachegen",
    "qmlimportscanner",
    "qmltyperegistrar",
    "qmlaotstats",
)
KEPT_QT_PLUGINS = (
    "platforms",
    "xcbglintegrations",
    "imageformats",
    "iconengines",
    "platforminputcontexts",
    "platformthemes",
    "egldeviceintegrations",
    "wayland-decoration-client",
    "wayland-graphics-integration-client",
    "wayland-shell-integration",
    "networkinformation",
    "tls",
)


def main() -> int:
    """Stage, prune, pack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="", help="for trying updates (default: the product's)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    version = options.version or product_version()
    with tempfile.TemporaryDirectory() as temporary:
        stage = Path(temporary) / "stage"
        install_python_parts(stage / HOME, version)
        prune(stage / HOME)
        install_desktop_parts(stage)
        write_control(stage, version)
        package = options.folder / f"potluck_{version}_{ARCHITECTURES[platform.machine()]}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--build", stage, package],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    sys.stdout.write(f"{package}: {package.stat().st_size / 1e6:.1f} MB\n")
    return 0


def product_version() -> str:
    """The one version number, without importing what is to be packed."""
    text = (ROOT / "engine" / "contract" / "version.py").read_text()
    found = re.search(r'PRODUCT_VERSION: Final = "([^"]+)"', text)
    if found is None:
        raise SystemExit("engine/contract/version.py names no PRODUCT_VERSION")
    return found[1]


def requirements() -> list[str]:
    """Of pyproject.toml, without what the training kit brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [line for line in project["dependencies"] if re.split(r"[^A-Za-z0-9_.-]", line)[0] not in IN_THE_KIT]


def install_python_parts(target: Path, version: str) -> None:
    """Potluck's own packages and everything that they import."""
    target.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", target]
    subprocess.run([*pip, "--only-binary", ":all:", "-c", ROOT / "constraints.txt", *requirements()], check=True)
    for name in ("app", "engine", "resources"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    own = target / "engine" / "contract" / "version.py"
    own.write_text(own.read_text().replace(f'"{product_version()}"', f'"{version}"'))


def prune(home: Path) -> None:
    """Leave out what nothing here loads."""
    for path in sorted(home.rglob("*"), reverse=True):
        inside = path.relative_to(home).parts
        if inside[0] in ("app", "engine", "resources"):
            continue
        if path.is_dir() and not path.is_symlink() and (path.name in DROPPED_FOLDERS and "numpy" not in inside):
            shutil.rmtree(path)
        elif path.is_file() and path.suffix in DROPPED_SUFFIXES:
            path.unlink()
    shutil.rmtree(home / "bin", ignore_errors=True)
    prune_qt(home / "PySide6")


def prune_qt(pyside: Path) -> None:
    """Only the modules, libraries and plugins of a window of widgets."""
    for path in pyside.glob("Qt*.abi3.so"):
        if path.name.removeprefix("Qt").removesuffix(".abi3.so") not in QT_USED:
            path.unlink()
    for path in (pyside / "Qt" / "lib").glob("libQt6*.so*"):
        if path.name.removeprefix("libQt6").split(".")[0] not in QT_LIBRARIES_KEPT:
            path.unlink()
    for path in (pyside / "Qt" / "plugins").iterdir():
        if path.name not in KEPT_QT_PLUGINS:
            shutil.rmtree(path)
    for name in DROPPED_QT_PROGRAMS:
        (pyside / name).unlink(missing_ok=True)
    for folder in ("libexec", "qml"):
        shutil.rmtree(pyside / "Qt" / folder, ignore_errors=True)


def install_desktop_parts(stage: Path) -> None:
    """Launchers, menu entry, link handler, icons."""
    places = {
        "potluck": ("usr/bin/potluck", 0o755),
        "potluck-window": ("usr/bin/potluck-window", 0o755),
        "potluck.desktop": ("usr/share/applications/potluck.desktop", 0o644),
        "potluck.metainfo.xml": ("usr/share/metainfo/potluck.metainfo.xml", 0o644),
    }
    for name, (place, mode) in places.items():
        target = stage / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TEMPLATES / name, target)
        target.chmod(mode)
    copyright_file = stage / "usr/share/doc/potluck/copyright"
    copyright_file.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / "LICENSE", copyright_file)
    icons = stage / "usr/share/icons/hicolor"
    scalable = icons / "scalable/apps/potluck.svg"
    scalable.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / "resources/icons/mark.svg", scalable)
    targets = [(size, icons / f"{size}x{size}/apps/potluck.png") for size in ICON_PIXELS]
    for _, target in targets:
        target.parent.mkdir(parents=True)
    draw_icons(scalable, targets)


def draw_icons(drawing: Path, targets: list[tuple[int, Path]]) -> None:
    """With the Qt that is packed."""
    from PySide6.QtCore import QRectF, QSize, Qt
    from PySide6.QtGui import QGuiApplication, QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    app = QGuiApplication(sys.argv[:1])
    renderer = QSvgRenderer(str(drawing))
    for size, target in targets:
        image = QImage(QSize(size, size), QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer.render(painter, QRectF(0, 0, size, size))
        painter.end()
        if not image.save(str(target)):
            raise SystemExit(f"{target} cannot be written")
    app.quit()


def write_control(stage: Path, version: str) -> None:
    """Package data and the scripts that run at install and removal."""
    debian = stage / "DEBIAN"
    debian.mkdir()
    files = sorted(path for path in stage.rglob("*") if path.is_file() and debian not in path.parents)
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fields = {
        "VERSION": version,
        "ARCHITECTURE": ARCHITECTURES[platform.machine()],
        "PYTHON": python,
        "NEXT_PYTHON": f"{sys.version_info[0]}.{sys.version_info[1] + 1}",
        "INSTALLED_KIB": str(sum(path.stat().st_size for path in files) // 1024),
    }
    control = (TEMPLATES / "control").read_text()
    for name, value in fields.items():
        control = control.replace(f"@{name}@", value)
    (debian / "control").write_text(control)
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(stage)}\n"
        for path in files
    ]
    (debian / "md5sums").write_text("".join(sums))
    for name in ("postinst", "prerm", "postrm"):
        shutil.copyfile(TEMPLATES / name, debian / name)
        (debian / name).chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
