"""What a child may read, decided by path."""

import os

import pytest

from grader.sandbox import paths


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """This package as pip would install it, beside others, in a directory that children may read."""
    site = tmp_path / "lib" / "site-packages"
    for name in ("numpy/core", "grader/problems", "grader/vgpu", "grader/sandbox"):
        (site / name).mkdir(parents=True)
    (site / "six.py").touch()
    (site / "grader" / "__init__.py").touch()
    monkeypatch.setattr(paths, "PACKAGE", str(site / "grader"))
    monkeypatch.setattr(paths.site, "getsitepackages", lambda: [str(site)])
    return site


def test_an_installed_package_is_taken_out_of_its_directory(installed):
    readable, listable = paths.readable()
    assert {str(installed / name) for name in ("numpy", "six.py")} <= set(readable)
    assert str(installed) in listable
    hidden = str(installed / "grader" / "problems")
    assert not any(hidden == path or hidden.startswith(path + "/") for path in readable)


def test_the_virtual_gpu_and_the_sandbox_can_be_imported_late(installed):
    readable, _ = paths.readable()
    assert {str(installed / "grader" / name) for name in ("__init__.py", "vgpu", "sandbox")} <= set(readable)


def test_asking_for_more_makes_it_readable(installed, tmp_path):
    os.symlink(tmp_path / "lib", tmp_path / "link")
    assert str(tmp_path / "lib") in paths.readable([str(tmp_path / "link")])[0]


def test_no_home_and_no_temporary_directory_is_readable():
    readable, listable = paths.readable()
    for secret in ("/etc/passwd", "/root", "/home", "/tmp", "/var", "/proc/1", os.path.join(paths.PACKAGE, "problems")):
        assert not any(secret == path or secret.startswith(path.rstrip("/") + "/") for path in [*readable, *listable])
