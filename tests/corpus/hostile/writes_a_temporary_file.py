# expect: error RTE
import tempfile

tempfile.NamedTemporaryFile().write(b"x")
