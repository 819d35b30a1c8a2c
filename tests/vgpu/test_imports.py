"""Every module of the virtual GPU can be imported first and alone: none relies on another having been imported."""

import json
import pkgutil
import subprocess
import sys

import grader.vgpu

# Forked children share the libraries, which take the time; of ours each has only what its module imports.
RUNNER = """
import json, os, sys, traceback
import llvmlite.binding, numba, numpy, matplotlib
failed = {}
for name in json.load(sys.stdin):
    out, end = os.pipe()
    if os.fork() == 0:
        try:
            __import__(name)
            said = ""
        except BaseException:
            said = traceback.format_exc()
        os.write(end, said.encode()[-4000:])
        os._exit(0)
    os.close(end)
    with os.fdopen(out) as pipe:
        said = pipe.read()
    if said:
        failed[name] = said
    os.wait()
print(json.dumps(failed))
"""


def test_every_module_can_be_imported_first():
    names = [module.name for module in pkgutil.walk_packages(grader.vgpu.__path__, "grader.vgpu.")]
    assert len(names) > 50
    done = subprocess.run([sys.executable, "-c", RUNNER], input=json.dumps(names), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}
