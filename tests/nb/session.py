"""Cells run one after the other as IPython would, in a process of its own; prints what each displays, as JSON."""

import json
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
out = []
for cell in json.load(sys.stdin):
    with capture_output() as said:
        result = shell.run_cell(cell)
    shown = [{k: v for k, v in o.data.items() if k.startswith("text/")} for o in said.outputs]
    error = result.error_in_exec
    out.append({"stdout": said.stdout, "stderr": said.stderr, "shown": shown, "error": error and type(error).__name__})
print(json.dumps(out))
