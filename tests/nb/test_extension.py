"""`%load_ext grader` takes the device that it is told, and says which it is."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from grader.nb import extension
extension._real_gpus = lambda: int(sys.argv[2])
print(extension._start(sys.argv[1]))
"""


def start(wanted: str, gpus: int) -> subprocess.CompletedProcess:
    """In a process of its own, on a machine that has so many GPUs."""
    command = [sys.executable, "-c", PROGRAM, wanted, str(gpus)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("wanted", "gpus", "said"),
    [
        ("", 0, "Virtual GPU: NVIDIA A100-SXM4-80GB, cc 8.0; times are modelled"),
        ("auto", 0, "Virtual GPU: NVIDIA A100-SXM4-80GB, cc 8.0"),
        ("virtual:t4", 1, "Virtual GPU: Tesla T4, cc 7.5"),
        ("h100", 1, "Virtual GPU: NVIDIA H100 80GB HBM3, cc 9.0"),
        ("a100*4@pcie", 1, "Virtual GPU: 4 x NVIDIA A100-SXM4-80GB in a tree of PCIe switches, cc 8.0"),
    ],
)
def test_a_virtual_gpu_that_is_named_is_taken_even_beside_a_real_one(wanted, gpus, said):
    done = start(wanted, gpus)
    assert done.stdout.startswith(said), done.stderr


def test_a_name_that_is_nobodys_is_refused_with_those_that_are():
    done = start("a100*4@torus", 0)
    assert done.returncode == 1
    assert "no topology is called 'torus'; there are nvlink, pcie" in done.stderr
