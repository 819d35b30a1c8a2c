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


def glossary() -> list[list[str]]:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]


def test_the_glossary_is_in_order_and_says_each_term_in_both_languages():
    rows = glossary()
    terms = [row[0].lower() for row in rows]
    assert terms == sorted(set(terms))
    assert all(re.search(r"[\u4e00-\u9fff]", row[1]) and row[2] and re.fullmatch(r"\d\d", row[3]) for row in rows)


def test_english_and_chinese_have_the_same_number_of_words_and_no_two_terms_share_one():
    rows = glossary()
    plain = [re.sub(r" ?\(.*?\)|^SM, ", "", row[0]) for row in rows]  # an abbreviation is no second word
    assert [(e, row[1]) for e, row in zip(plain, rows, strict=True) if e.count(",") != row[1].count(",")] == []
    chinese = [word.strip() for row in rows for word in row[1].split(",")]
    assert sorted(chinese) == sorted(set(chinese))


def test_the_chinese_column_holds_no_english_sentence():
    assert [row[0] for row in glossary() if re.search(r"[A-Za-z]{3,} [A-Za-z]{3,}", row[1])] == []
