"""PTX text to typed instructions in basic blocks (PTX ISA, "Syntax" and "State Spaces, Types, and Variables")."""

from .cfg import Body, build_body
from .parse import Entry, Instr, PtxError, PtxModule, parse_ptx

__all__ = ["Body", "Entry", "Instr", "PtxError", "PtxModule", "build_body", "parse_ptx"]
