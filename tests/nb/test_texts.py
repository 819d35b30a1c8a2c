"""The course's pages name everything that there is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]-*.py"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_is_in_the_list_with_its_exercises(path):
    [row] = [
        line for line in (ROOT / "lessons" / "README.md").read_text().splitlines() if f"({path.stem}.ipynb)" in line
    ]
    named = set(re.findall(r"`(\w+)`", row))
    assert named == {p.stem[3:] for p in (ROOT / "solutions").glob(f"{path.stem[:2]}_*.py")}


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_follows_the_arc(path):
    text = path.read_text()
    parts = ["**You will**", "**You need**", "%load_ext grader", "**Predict", "CUDA C++", "Nsight"]
    assert [part for part in parts if part not in text] == []


def test_the_glossary_is_in_order_and_says_each_term_in_both_languages():
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    terms = [row[0].lower() for row in rows]
    assert terms == sorted(terms)
    assert all(re.search(r"[\u4e00-\u9fff]", row[1]) and row[2] and re.fullmatch(r"\d\d", row[3]) for row in rows)
