"""The commands as they are typed: what they say of themselves, and what a clumsy line gets."""

import pytest

from grader import cli, exits

COMMANDS = ("grade", "autograde", "run", "devices", "list", "hint", "doctor", "program", "check-course")


def helped(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_these_are_all_commands(capsys):
    listed = helped(capsys).split("COMMAND\n")[1]
    assert tuple(line.split()[0] for line in listed.splitlines() if line[:5].strip() and line[4] != " ") == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_lists_its_exit_statuses(capsys, command):
    said = helped(capsys, command).partition("exit status:\n")[2]
    statuses = {int(line.split()[0]): line for line in said.splitlines()}
    assert {0, exits.USAGE, exits.INTERRUPTED} <= statuses.keys()
    assert all(len(line.split()) > 1 for line in statuses.values())
    if command == "run":
        assert "the sanitizers found something" in statuses[1]
