"""The tables of the cards: every cell says where it comes from; a card of one's own is a file."""

import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from grader.vgpu import devices
from grader.vgpu.model import cards

TABLES = tomllib.loads((Path(cards.__file__).parent / "cards.toml").read_text())
SOURCES = TABLES.pop("sources")
CELLS = [(key, cell) for key, table in TABLES.items() for cell in table]


def test_the_table_has_the_cards_of_the_course_and_all_their_cells():
    assert set(TABLES) == {"t4", "a100", "h100", "h200", "rtx4090", "l4"}
    for table in TABLES.values():
        assert set(table) == {field.name for field in fields(cards.Timing)}


@pytest.mark.parametrize(("key", "cell"), CELLS)
def test_a_cell_names_a_document_and_the_place_in_it_or_says_how_it_was_estimated(key, cell):
    value, source = TABLES[key][cell]
    assert value > 0 or (value == 0 and cell == "nvlink_gbs")
    document, _, place = source.partition(": ")
    assert document == "estimate" or document in SOURCES, source
    assert len(place) >= 5, source


def test_every_document_is_cited_and_says_what_it_is():
    cited = {table[cell][1].partition(":")[0] for table in TABLES.values() for cell in table}
    text = " ".join(table[cell][1] for table in TABLES.values() for cell in table)
    for key, title in SOURCES.items():
        assert key in cited or re.search(rf"\b{key}\b", text), key
        assert len(title) > 20


OWN = """
[mine]
name = ["My card", "me"]
cc = [[8, 6], "me"]
sms = [10, "me"]
clock_mhz = [1500, "me"]
fp32_lanes = [128, "me"]
memory_gb = [8, "me"]
bus_bits = [128, "me"]
bandwidth_gbs = [200.0, "me"]
l2_mb = [2, "me"]
copy_engines = [1, "me"]
"""


def own(tmp_path, change=lambda text: text) -> str:
    """A file with a card: A100's timing, and OWN."""
    text = OWN + "".join(f'{cell} = [{value}, "as A100"]\n' for cell, (value, _) in TABLES["a100"].items())
    path = tmp_path / "Mine.toml"
    path.write_text(change(text))
    return str(path)


@pytest.fixture
def tables():
    """The tables of cards, put back afterwards."""
    before, limits = dict(devices.CARDS), dict(devices.LIMITS)
    yield
    for now, then in ((devices.CARDS, before), (devices.LIMITS, limits)):
        now.clear()
        now.update(then)


def test_a_file_is_asked_for_by_its_name(tmp_path, tables):
    path = own(tmp_path)
    (card, twin) = devices.parse(f"virtual:{path}*2").cards
    assert card == twin and (card.name, card.cc, card.sms, card.nvlink) == ("My card", (8, 6), 10, True)
    assert cards.timing("mine").dram_gbs == cards.timing("a100").dram_gbs
    assert devices.attributes(card, 0)[16] == 10


def test_a_program_runs_on_a_card_of_ones_own(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from numba import cuda\nprint(cuda.get_current_device().name)\n")
    command = [sys.executable, "-m", "grader", "run", "--device", own(tmp_path), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert (done.returncode, done.stdout) == (0, "My card (virtual)\n"), done.stderr
    assert "virtual GPU: My card" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[mine]", "[mine", "is not TOML: "),
        ("[mine]", "[a100]", "card 'a100' needs a name of its own"),
        ('sms = [10, "me"]\n', "", "card 'mine' needs the cell sms = [value, source]"),
        ('sms = [10, "me"]', "sms = 10", "card 'mine' needs the cell sms = [value, source]"),
        ('sms = [10, "me"]', 'sms = [10, " "]', "card 'mine' needs the cell sms = [value, source]"),
        ("sms = [10,", "sms = [0,", "sms must be a number above 0, and is 0"),
        ("sms = [10,", "sms = ['ten',", "sms must be a number above 0, and is 'ten'"),
        ("sms = [10,", "sms = [nan,", "sms must be a number above 0, and is nan"),
        ("cc = [[8, 6],", "cc = [8.6,", "cc must be two whole numbers, such as [8, 0], and is 8.6"),
        ("cc = [[8, 6],", "cc = [[3, 5],", "has cc 3.5; the virtual GPU can be 7.0, 7.5, 8.0, 8.6, 8.9, 9.0"),
        ("l2_mb", "l3_mb = [1, 'me']\nl2_mb", "has the cell l3_mb, which no card has"),
        (OWN, "[sources]\n", "holds no card"),
    ],
)
def test_a_file_that_is_not_right_is_refused_by_name_of_file_card_and_cell(tmp_path, tables, old, new, message):
    before = dict(devices.CARDS)
    path = own(tmp_path, lambda text: text.replace(old, new) if old != OWN else new)
    with pytest.raises(ValueError) as refused:
        devices.parse(path)
    assert message in str(refused.value) and path in str(refused.value)
    assert before == devices.CARDS


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(ValueError, match=r"nothing\.toml cannot be read: No such file or directory"):
        devices.parse(str(tmp_path / "nothing.toml"))
