"""The build host's pip settings, in a form that works inside an image build.

    python3 containers/host_pip.py FOLDER

FOLDER is what the build sees as /mnt. Index, certificates, proxy and the like are written to
FOLDER/pip.conf, so that no definition file names a registry and nothing of a site stays in an image. Local
folders of packages are printed as bind options, one a line. Runs on Python 3.7 and later; needs pip.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

PLACES = ("index-url", "extra-index-url", "find-links")
OTHERS = ("no-index", "trusted-host", "proxy", "retries", "timeout", "default-timeout")
FILES = ("cert", "client-cert")
INSIDE = "/mnt"


def settings(listing, environ):
    """pip's effective settings from the output of `pip config list`; later lines and the environment win."""
    found = {}
    for line in sorted(listing.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        scope, _, name = key.rpartition(".")
        if scope in ("global", "install", ":env:", "download") and name in (*PLACES, *FILES, *OTHERS):
            found[name.replace("default-timeout", "timeout")] = ast.literal_eval(value)
    for variable in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        if environ.get(variable):
            found.setdefault("cert", environ[variable])
    return {name: value for name, value in found.items() if value}


def translate(found, folder):
    """(pip.conf, bind options): local files are copied into `folder`, local folders become binds below it."""
    lines, binds = ["[global]"], []
    for name, value in sorted(found.items()):
        if name in FILES:
            if not os.path.isfile(value):
                continue
            target = {"cert": "ca.pem", "client-cert": "client.pem"}[name]
            shutil.copyfile(value, Path(folder, target))
            value = f"{INSIDE}/{target}"
        elif name in PLACES:
            value = " ".join(_inside(item, folder, binds) for item in value.split())
        lines.append(f"{name} = {value}")
    return "\n".join(lines) + "\n", binds


def _inside(item, folder, binds):
    path = item[len("file://") :] if item.startswith("file://") else item
    if not path.startswith("/"):
        return item
    # The top of the index, for its pages link to files beside it by relative paths.
    top = Path(path).parent if item.startswith("file://") else Path(path)
    if not top.is_dir():
        return item
    place = f"local/{len(binds)}"
    Path(folder, place).mkdir(parents=True)
    binds.append(f"--bind={top}:{INSIDE}/{place}:ro")
    inside = f"{INSIDE}/{place}" + (f"/{Path(path).name}" if item.startswith("file://") else "")
    return f"file://{inside}" if item.startswith("file://") else inside


def main():
    folder = sys.argv[1]
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    text, binds = translate(settings(listing, os.environ), folder)
    Path(folder, "pip.conf").write_text(text)
    print("\n".join(binds))


if __name__ == "__main__":
    main()
