"""Theoretical occupancy is what NVIDIA's published rules give."""

import random

import pytest
from cuxray import archspec
from cuxray.occupancy import compute

from grader.vgpu.devices import CARDS
from grader.vgpu.driver.occupancy import blocks_per_sm
from grader.vgpu.model import occupancy

CCS = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0)]


@pytest.mark.parametrize("cc", CCS)
def test_it_equals_an_independent_port_of_cuda_occupancy_h(cc):
    spec, choose = archspec.lookup(cc), random.Random(0)
    for _ in range(2000):
        threads, registers = choose.randint(1, 1024), choose.randint(1, 255)
        shared = choose.choice([0, choose.randint(0, spec.smem_per_block_max)])
        expected = compute(spec, registers, threads, shared).blocks_per_sm
        assert occupancy(cc, threads, registers, shared).blocks == expected, (threads, registers, shared)


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.key)
def test_the_driver_answers_the_same(card):
    choose = random.Random(1)
    for _ in range(500):
        threads, registers, shared = choose.randint(1, 1024), choose.randint(1, 64), choose.randint(0, 40_000)
        assert blocks_per_sm(card, threads, registers, shared) == occupancy(card.cc, threads, registers, shared).blocks


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limit"),
    [
        (256, 32, 0, 8, ["warps", "registers"]),
        (32, 16, 0, 32, ["blocks"]),
        (256, 64, 0, 4, ["registers"]),
        (128, 32, 48 * 1024, 3, ["shared memory"]),
    ],
)
def test_it_says_what_limits_an_a100(threads, registers, shared, blocks, limit):
    found = occupancy((8, 0), threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, limit)
