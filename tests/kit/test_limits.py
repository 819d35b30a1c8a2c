"""A kernel's bound is named, and what is not known is said."""

import math
import subprocess
import sys
from pathlib import Path

from grader.kit.limits import WHERE, Why

HERE = Path(__file__).parent


def test_bounds_stalls_and_limits_of_four_launches():
    command = [sys.executable, "-W", "ignore", "-m", "grader", "run", "--device", "a100", str(HERE / "bounds.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.splitlines() == [
        "few warps latency long scoreboard",
        "many warps DRAM",
        "arithmetic FMA",
        "braked 4 0.25 shared memory",
    ], done.stderr


def test_on_a_real_gpu_only_the_time_is_told_and_where_to_find_the_rest():
    measured = Why(12.34)
    assert str(measured) == f"12.3 us. {WHERE}"
    assert math.isnan(measured.intensity)


def test_intensity_is_operations_for_each_byte():
    assert Why(1.0, "FMA", gflops=6000.0, gbs=1500.0).intensity == 4.0
