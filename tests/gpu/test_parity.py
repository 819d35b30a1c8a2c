"""The same programs give the same results on the virtual GPU and on the card."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
ROWS = ("integer", "compare", "convert", "float", "half")  # instructions; the other files look at findings and faults
ENV = {**os.environ, "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "NUMBA_CUDA_WARN_ON_IMPLICIT_COPY": "0"}


def python(*args: str, timeout: float, **env: str) -> subprocess.CompletedProcess:
    """Run Python in a process of its own, at the root of the project."""
    return subprocess.run(
        [sys.executable, *args], cwd=ROOT, env=ENV | env, capture_output=True, text=True, timeout=timeout
    )


def arrays_on(device: str, folder: Path) -> dict[str, np.ndarray]:
    """What the host programs give on a device."""
    target = folder / f"{device.replace(':', '-')}.npz"
    done = python("-m", "tests.gpu.programs", device, str(target), timeout=900)
    assert done.returncode == 0, done.stderr
    with np.load(target) as found:
        return dict(found)


@pytest.fixture(scope="module")
def on_an_a100(tmp_path_factory) -> dict[str, np.ndarray]:
    return arrays_on("virtual:a100", tmp_path_factory.mktemp("programs"))


def compare(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    different = [name for name in a if a[name].dtype != b[name].dtype or not np.array_equal(a[name], b[name])]
    assert not different


def test_host_programs_do_not_depend_on_the_card_that_is_modelled(on_an_a100, tmp_path):
    compare(on_an_a100, arrays_on("virtual:h100", tmp_path))


@pytest.mark.gpu
def test_host_programs_give_the_same_on_the_card(card, on_an_a100, tmp_path, note):
    note("host programs compared", len({name.partition("/")[0] for name in on_an_a100}))
    compare(on_an_a100, arrays_on("cuda", tmp_path))


@pytest.mark.gpu
@pytest.mark.parametrize("rows", ROWS)
def test_instructions_give_on_the_card_what_the_rows_expect(card, rows, tmp_path, note):
    """The virtual GPU passes the same rows in tests/vgpu/rows."""
    folder, junit = ROOT / "tests" / "vgpu" / "rows", tmp_path / "rows.xml"
    options = ["-o", "addopts=", "-q", "-p", "tests.gpu.on_the_card", f"--confcutdir={folder}", f"--junitxml={junit}"]
    done = python("-m", "pytest", *options, str(folder / f"test_rows_{rows}.py"), timeout=900)
    bad = [c.get("name") for c in ET.parse(junit).iter("testcase") if any(e.tag in ("failure", "error") for e in c)]
    note(f"rows that differ: {rows}", bad)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.gpu
def test_course_kernels_give_on_the_card_what_numpy_says(card, note):
    done = python("-m", "course.run", "cuda", timeout=900, PYTHONPATH=f"{ROOT}:{ROOT / 'tests' / 'vgpu'}")
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    bad = {r["case"]: r["error"].strip().splitlines()[-1] for r in results if r["error"]}
    note("course kernels", {"run": len(results), "wrong": bad})
    assert done.returncode == 0, done.stderr[-4000:]
    assert results and not bad
