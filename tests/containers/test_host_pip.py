"""containers/host_pip.py: the build host's pip settings arrive inside a build, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.by_path import load

SOURCE = Path(__file__).resolve().parents[2] / "containers" / "host_pip.py"


@pytest.fixture(scope="module")
def host_pip() -> ModuleType:
    return load(SOURCE)


def test_the_environment_wins_over_the_files_and_foreign_settings_stay_out(host_pip: ModuleType) -> None:
    listing = "\n".join(
        [
            ":env:.index-url='https://mirror.example/simple'",
            "global.index-url='https://other.example/simple'",
            "global.target='/home/me/elsewhere'",
            "global.require-virtualenv='true'",
            "install.trusted-host='mirror.example'",
            ":env:.default-timeout='180'",
        ]
    )
    assert host_pip.settings(listing, {}) == {
        "index-url": "https://mirror.example/simple",
        "trusted-host": "mirror.example",
        "timeout": "180",
    }


def test_a_certificate_named_for_other_programs_serves_pip_too(host_pip: ModuleType, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("CERTIFICATE")
    found = host_pip.settings("", {"SSL_CERT_FILE": str(bundle)})
    text, binds = host_pip.translate(found, tmp_path)
    assert text == "[global]\ncert = /mnt/ca.pem\n"
    assert (tmp_path / "ca.pem").read_text() == "CERTIFICATE"
    assert binds == []


def test_local_folders_are_bound_and_named_by_their_place_inside(
    host_pip: ModuleType, tmp_path: Path
) -> None:
    wheels, index, inside = tmp_path / "wheels", tmp_path / "index" / "simple", tmp_path / "inside"
    for folder in (wheels, index, inside):
        folder.mkdir(parents=True)
    found = {"find-links": f"{wheels}", "extra-index-url": f"file://{index} https://mirror.example/simple"}
    text, binds = host_pip.translate(found, inside)
    assert text.splitlines() == [
        "[global]",
        "extra-index-url = file:///mnt/local/0/simple https://mirror.example/simple",
        "find-links = /mnt/local/1",
    ]
    assert binds == [f"--bind={index.parent}:/mnt/local/0:ro", f"--bind={wheels}:/mnt/local/1:ro"]
    assert sorted(path.name for path in (inside / "local").iterdir()) == ["0", "1"]


def test_what_is_not_there_is_left_out_without_a_fuss(host_pip: ModuleType, tmp_path: Path) -> None:
    text, binds = host_pip.translate({"cert": "/no/such.pem", "find-links": "/no/such"}, tmp_path)
    assert text == "[global]\nfind-links = /no/such\n"
    assert binds == []
