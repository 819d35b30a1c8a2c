"""The commands as they are typed: what they say of themselves, and what a clumsy line gets."""

from pathlib import Path

import pytest

from grader import cli, exits

ROOT = str(Path(__file__).parents[2])
COMMANDS = ("grade", "autograde", "run", "devices", "list", "hint", "doctor", "program", "check-course")


def helped(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_these_are_all_commands(capsys):
    listed = helped(capsys).split("COMMAND\n")[1].split("\n\n")[0]
    assert tuple(line.split()[0] for line in listed.splitlines() if line[:5].strip() and line[4] != " ") == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_lists_its_exit_statuses(capsys, command):
    said = helped(capsys, command).partition("exit status:\n")[2]
    statuses = {int(line.split()[0]): line for line in said.splitlines()}
    assert {0, exits.USAGE, exits.INTERRUPTED} <= statuses.keys()
    assert all(len(line.split()) > 1 for line in statuses.values())
    if command == "run":
        assert "the sanitizers found something" in statuses[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check-course", "--root", "/nowhere"], "/nowhere is no course: there is no folder solutions in it"),
        (["check-course", "--root", ROOT, "--device", "virtual:tpu"], "no virtual GPU is called 'tpu'"),
        (["program", "show", "gone.py"], "there is no file 'gone.py'"),
        (["run", "gone.py"], "there is no script 'gone.py'"),
        (["devices", "tpu"], "no virtual GPU is called 'tpu'"),
        (["hint", "nope"], "no exercise 'nope'"),
    ],
)
def test_a_clumsy_line_gets_one_sentence_and_exit_status_2(capsys, words, said):
    assert cli.main(words) == exits.USAGE
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_seed_is_a_whole_number_from_zero_on(capsys, seed):
    with pytest.raises(SystemExit) as ended:
        cli.main(["grade", "x.py", f"--seed={seed}"])
    assert ended.value.code == 2 and "is not a whole number from 0 on" in capsys.readouterr().err


def test_a_list_of_a_folder_that_is_not_there_says_so(capsys):
    assert cli.main(["list", "/nowhere"]) == 0
    said = capsys.readouterr()
    assert "there is no folder /nowhere" in said.err and "00_mend" in said.out
