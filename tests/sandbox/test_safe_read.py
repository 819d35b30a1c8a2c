"""Submissions are read without trusting them."""

import gzip
import io
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from grader.sandbox.json_skim import MAX_TOKENS
from grader.sandbox.safe_read import Cell, Rejected, read_archive, read_cells, read_file, read_script


def notebook(*cells: dict) -> bytes:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def code(source, **more) -> dict:
    return {"cell_type": "code", "source": source, "outputs": [], "metadata": {}, **more}


def marked(grade_id: str, source: str = "x = 1", **marks) -> dict:
    return code(source, metadata={"nbgrader": {"grade_id": grade_id, **marks}})


# ---- notebooks


def test_cells_keep_source_type_and_nbgrader_marks():
    raw = notebook(
        {"cell_type": "markdown", "source": "# Title", "metadata": {}},
        code(["x = 1\n", "y = 'é'"]),
        marked("saxpy", solution=True, grade=True, locked=False, points=3),
    )
    assert read_cells(raw) == [
        Cell(0, "# Title", None, "markdown"),
        Cell(1, "x = 1\ny = 'é'", None, "code"),
        Cell(2, "x = 1", "saxpy", "code", solution=True, grade=True, locked=False, points=3.0),
    ]


def test_reading_is_what_json_says_whatever_the_order_and_spacing():
    raw = b'{"nbformat":4 , "x":[{"a":"]}\\""}], "cells" : [ {"source":"a\\u0022b","cell\\u005ftype":"code"} ] }\n'
    assert read_cells(raw) == [Cell(0, 'a"b', None, "code")]


def test_a_hundred_megabytes_of_outputs_are_dropped_unread():
    image = {"output_type": "display_data", "data": {"image/png": "A" * (100 << 20)}}
    raw = notebook(code("x = 1", outputs=[image]), marked("k"))
    tracemalloc.start()
    assert [cell.source for cell in read_cells(raw)] == ["x = 1", "x = 1"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * len(raw)  # the text of the file, once


def test_deep_nesting_in_outputs_is_walked_over():
    deep = b"[" * 100_000 + b"]" * 100_000
    raw = b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x", "outputs": ' + deep + b"}]}"
    assert read_cells(raw) == [Cell(0, "x", None, "code")]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "JSON"),
        (b"[]", "JSON"),
        (b"null", "JSON"),
        (b"{", "JSON"),
        (b'{"cells": [}', "JSON"),
        (b'{"cells": [1 2], "nbformat": 4}', "JSON"),
        (b'{"nbformat": 4, "cells": []} x', "more text"),
        (b'{"nbformat": 4, "cells": [], "cells": []}', "two members"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "a", "source": "b"}]}', "two members"),
        (b'{"nbformat": 4, "cells": {}}', "JSON"),
        (b'{"nbformat": 3, "worksheets": []}', "nbformat 4"),
        (b'{"nbformat": 4}', "nbformat 4"),
        (b"\xff\xfe\x00", "UTF-8"),
        (notebook(code(7)), "not text"),
        (notebook(code([1])), "not text"),
        (notebook(code("\ud800")), "not text"),
        (notebook({"cell_type": "virus", "source": ""}), "no known type"),
        (notebook({"source": ""}), "no known type"),
        (notebook(code("x" * (2 << 20))), "allowed"),
        (notebook(*[code("x")] * 2001), "2000 cells"),
        (notebook(marked("a"), code(""), marked("a")), "Cells 0 and 2 both carry the grade id 'a'"),
        (b"[" * (4 << 20), "JSON"),
        (b'{"nbformat": 4, "cells": ' + b"9" * 100_000 + b"}", "JSON"),
        (b'{"nbformat": 4, "cells": [' + b"{}," * (MAX_TOKENS // 2) + b"{}]}", "brackets"),
        (b'{"nbformat": 4, "cells": [' + b'"\\"' * 500_000, "JSON"),
        (b'{"nbformat": 4, "cells": [' + b'"a\\', "JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)}-bytes",
)
def test_what_is_no_notebook_is_refused_in_one_sentence(raw, why):
    with pytest.raises(Rejected, match=why) as refusal:
        read_cells(raw)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_metadata_that_is_not_nbgraders_is_ignored():
    cells = read_cells(notebook(code("x", metadata={"nbgrader": [1]}), marked("", points=True, grade="yes")))
    assert cells == [Cell(0, "x", None, "code"), Cell(1, "x = 1", None, "code")]


# ---- files


def test_a_script_with_null_characters_is_refused():
    with pytest.raises(Rejected, match="null characters"):
        read_script(b"x = 1\0")


def test_a_script_is_text_without_a_mark_of_its_order():
    assert read_script(b"\xef\xbb\xbfx = 1\r\n") == "x = 1\n"


def test_missing_linked_special_and_huge_files_are_refused(tmp_path):
    (tmp_path / "secret").write_text("s")
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "fifo")
    with open(tmp_path / "sparse", "wb") as sparse:
        sparse.truncate(1 << 40)
    for name, why in (
        ("absent", "is missing"),
        ("link", "is a symbolic link, which is not followed: send the file itself"),
        ("fifo", "not a regular file"),
        (".", "not a regular file"),
        ("sparse", "at most 1 MB"),
    ):
        with pytest.raises(Rejected, match=why):
            read_file(str(tmp_path / name), max_mb=1)
    with pytest.raises(Rejected, match="not a regular file"):
        read_file("/dev/zero")


def test_no_part_of_a_path_beneath_a_root_may_lead_out(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a.py").write_text("x")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    root = str(tmp_path / "in")
    assert read_file("deep/a.py", root) == b"x"
    for path in ("up/secret", "../secret", "deep/../../secret", str(tmp_path / "secret"), "", "deep//a.py", "a\0b"):
        with pytest.raises(Rejected):
            read_file(path, root)


# ---- archives


def archive(path, *files: tuple[object, bytes], compression=zipfile.ZIP_DEFLATED) -> str:
    with zipfile.ZipFile(path, "w", compression) as made:
        for name, data in files:
            made.writestr(name, data)
    return str(path)


def test_an_archive_gives_the_wanted_files_only(tmp_path):
    path = archive(tmp_path / "a.zip", ("one/a.py", b"x"), ("b.ipynb", b"{}"), ("c.png", b"\0" * 1000), ("d/", b""))
    assert read_archive(path) == {"one/a.py": b"x", "b.ipynb": b"{}"}


def special(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../gradebook.py", "unsafe name"),
        ("/etc/a.py", "unsafe name"),
        ("a/../../b.py", "unsafe name"),
        ("..\\b.py", "unsafe name"),
        ("C:b.py", "unsafe name"),
        (special("a.py", 0o120777), "link"),
        (special("a.py", 0o010644), "link or a special file"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.external_attr >> 16:o}",
)
def test_names_that_lead_out_and_links_are_refused(tmp_path, name, why):
    with pytest.raises(Rejected, match=why):
        read_archive(archive(tmp_path / "a.zip", (name, b"x")))


def test_a_zip_bomb_is_refused_even_when_its_header_lies(tmp_path):
    path = archive(tmp_path / "a.zip", ("a.py", bytes(300 << 20)))
    with pytest.raises(Rejected, match="unpacks to more than 1 MB"):
        read_archive(path)
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    struct.pack_into("<I", raw, raw.rfind(b"PK\1\2") + 24, 100)
    (tmp_path / "liar.zip").write_bytes(raw)
    with pytest.raises(Rejected):
        read_archive(str(tmp_path / "liar.zip"))


def test_many_files_that_are_large_together_are_refused(tmp_path):
    path = archive(tmp_path / "a.zip", *[(f"{n}.ipynb", bytes(100 << 20)) for n in range(3)])
    with pytest.raises(Rejected, match="unpacks to more than 56 MB"):
        read_archive(path)


def test_too_many_entries_are_refused_before_they_are_listed(tmp_path):
    path = archive(tmp_path / "a.zip", *[(f"{n}.txt", b"") for n in range(1001)])
    with pytest.raises(Rejected, match="1000 entries"):
        read_archive(path)


def test_unusual_packing_repeats_and_nonsense_are_refused(tmp_path):
    with pytest.raises(Rejected, match="unusual"):
        read_archive(archive(tmp_path / "x.zip", ("a.py", b"x"), compression=zipfile.ZIP_LZMA))
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = archive(tmp_path / "twice.zip", ("a.py", b"x"), ("a.py", b"y"))
    with pytest.raises(Rejected, match="twice"):
        read_archive(path)
    for raw in (b"", b"PK\5\6", b"not a zip" * 100, b"PK\5\6" + b"\0" * 6 + struct.pack("<HIIH", 3, 200, 9, 0)):
        (tmp_path / "bad.zip").write_bytes(raw)
        with pytest.raises(Rejected):
            read_archive(str(tmp_path / "bad.zip"))


def test_a_name_of_no_letters_is_refused(tmp_path):
    raw = Path(archive(tmp_path / "a.zip", ("a.py", b"x"))).read_bytes()
    (tmp_path / "a.zip").write_bytes(raw.replace(b"a.py", b"\0.py"))  # zipfile ends a name there
    with pytest.raises(Rejected, match="unsafe name"):
        read_archive(str(tmp_path / "a.zip"))


def tarred(path, *files: tuple[object, bytes], mode: str = "w:gz") -> str:
    with tarfile.open(path, mode) as made:
        for entry, data in files:
            if isinstance(entry, str):
                entry = tarfile.TarInfo(entry)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
    return str(path)


@pytest.mark.parametrize(("name", "mode"), [("a.tar.gz", "w:gz"), ("a.tgz", "w:gz"), ("a.tar", "w")])
def test_a_tape_archive_gives_the_wanted_files_only(tmp_path, name, mode):
    files = [("./one/a.py", b"x"), ("b.ipynb", b"{}"), ("c.png", b"\0" * 1000), ("e" * 300 + ".py", b"long")]
    path = tarred(tmp_path / name, *files, mode=mode)
    assert read_archive(path) == {"one/a.py": b"x", "b.ipynb": b"{}", "e" * 300 + ".py": b"long"}


def of_type(kind: bytes, name: str = "a.py", target: str = "/etc/passwd") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("../gradebook.py", "unsafe name"),
        ("/etc/a.py", "unsafe name"),
        ("a/../../b.py", "unsafe name"),
        (of_type(tarfile.SYMTYPE), "link"),
        (of_type(tarfile.LNKTYPE), "link"),
        (of_type(tarfile.FIFOTYPE), "special file"),
        (of_type(tarfile.CHRTYPE), "special file"),
        (of_type(tarfile.SYMTYPE, "c.png"), "link"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.name} of type {value.type.decode()}",
)
def test_a_tape_archive_with_names_that_lead_out_or_links_is_refused(tmp_path, entry, why):
    with pytest.raises(Rejected, match=why):
        read_archive(tarred(tmp_path / "a.tar.gz", (entry, b"")))


def test_tape_archives_that_are_too_large_are_refused(tmp_path):
    with pytest.raises(Rejected, match="unpacks to more than 1 MB"):
        read_archive(tarred(tmp_path / "a.tgz", ("a.py", bytes(2 << 20))))
    with pytest.raises(Rejected, match="1000 entries"):
        read_archive(tarred(tmp_path / "b.tgz", *[(f"{n}.txt", b"") for n in range(1001)]))
    with gzip.open(tmp_path / "bomb.tgz", "wb") as bomb:
        for _ in range(321):
            bomb.write(bytes(1 << 20))
    with pytest.raises(Rejected, match="unpacks to more than 320 MB"):
        read_archive(str(tmp_path / "bomb.tgz"))


def test_tape_archives_that_are_nonsense_are_refused_in_one_sentence(tmp_path):
    whole = (tmp_path / "whole.tgz", ("a.py", b"x" * 5000))
    raw = Path(tarred(*whole)).read_bytes()
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    nested = (header.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")) * 3000
    header.size = 1 << 70
    endless = header.tobuf(tarfile.GNU_FORMAT)
    for bad in (b"", b"nonsense" * 200, raw[:40], raw[:-9] + b"123456789", nested, endless):
        (tmp_path / "bad.tgz").write_bytes(bad)
        with pytest.raises(Rejected) as refusal:
            read_archive(str(tmp_path / "bad.tgz"))
        assert "bad.tgz" in str(refusal.value) and "\n" not in str(refusal.value)
