"""What is adapted in numba-cuda, all in one place.

* Its linker's last step gives linked PTX in place of machine code: after link-time optimisation, and so what would
  really run. PTX that is linked to it is put beside it, since nvJitLink optimises LTO-IR only. (The driver has the same
  PTX assembled too, for register counts, and refuses what ptxas refuses.)
* Line numbers are on by default, since a report without the student's line is of little use; the code is unaffected.
* Kernels in numba's on-disk cache are kept apart from those of a real GPU.
* `inspect_sass` shows what ptxas makes of the PTX.

Written for numba-cuda 0.30. The patches are applied when the modules are imported, so a program that does not use numba
does not pay for it.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import re
import sys
from collections.abc import Callable
from types import ModuleType

from grader.vgpu.driver import facts


def _patch_driver(module: ModuleType) -> None:
    """numba.cuda.cudadrv.driver"""

    def complete(self):
        """Link, and give the PTX as what the driver is to load."""
        texts = []
        lto = [code for code in self._object_codes if code.code_type == "ltoir"]
        if lto:
            self.linker = module.Linker(*lto, options=self._get_linker_options(ptx=True))
            texts.append(bytes(self.linker.link("ptx").code))
            self.close()
        else:
            self.linker = self  # there is none; numba only asks whether it is there
            self._info_log = self._error_log = ""
        for code in self._object_codes:
            if code.code_type == "ptx":
                texts.append(bytes(code.code))
            elif code.code_type != "ltoir" and "cudadevrt" not in code.name:  # that one the machine has itself
                raise module.LinkerError(
                    f"the virtual GPU executes PTX, and {code.name or 'an input of the link'} is machine code "
                    f"({code.code_type}): link its source, PTX or LTO-IR instead"
                )
        self._complete = True
        ptx = _merge(texts)
        if self.max_registers:
            facts.MAX_REGISTERS[ptx.rstrip(b"\0")] = self.max_registers
        return module.ObjectCode.from_ptx(ptx)

    module._Linker.complete = complete
    if module.driver.initialization_error is not None:  # it was imported before there was a driver
        module.driver.__init__()


def free_pending() -> None:
    """Free what numba has put off freeing, if numba-cuda has been imported."""
    gc.collect()
    devices = sys.modules.get("numba.cuda.cudadrv.devices")
    for gpu in devices.gpus if devices else ():
        if context := gpu.primary_context:
            context.deallocations.clear()
            context.memory_manager.deallocations.clear()


def _merge(texts: list[bytes]) -> bytes:
    """Several PTX modules as one: the first one's header, and no declarations of what another defines.

    Files are numbered anew. Debug sections, whose labels would collide, are left out; lines are not in them.
    """
    if len(texts) == 1:
        return texts[0]
    texts, highest = [_without_debug_sections(text) for text in texts], 0
    for k, text in enumerate(texts):
        texts[k] = _renumber(text, highest)
        highest = max([highest, *map(int, re.findall(rb"^\s*\.file\s+(\d+)", texts[k], re.MULTILINE))])
    header = re.compile(rb"^\s*\.(version|target|address_size)\b.*$", re.MULTILINE)
    name = rb"\.func\s+(?:\([^)]*\)\s*)?([\w$]+)[^;{]*"
    defined = set(re.findall(rb"^(?:\.(?:visible|weak)\s+)*" + name + rb"\{", b"\n".join(texts), re.MULTILINE))
    extern = re.compile(rb"^\.extern\s+" + name + rb";", re.MULTILINE)

    def undefined(found: re.Match) -> bytes:
        return b"" if found[1] in defined else found[0]

    first = b"\n".join(match[0] for match in header.finditer(texts[0])).replace(b", debug", b"")
    held: set[bytes] = set()
    texts = [_without_repeats(text, held) for text in reversed(texts)]  # callees first
    bodies = [extern.sub(undefined, header.sub(b"", text.rstrip(b"\0"))) for text in texts]
    merged = first + b"\n" + b"\n".join(bodies)
    return merged + b"\n" + _NAME_SECTION if _NAME in merged else merged


_WEAK = re.compile(
    rb"^\.(?:common|weak)\s+\.(?:global|const|func)\b[^;{=]*?([\w$]+)\s*(?:[\[(][^;{=]*)?(?=[;{=])", re.MULTILINE
)


def _without_repeats(text: bytes, held: set[bytes]) -> bytes:
    """The text without those weak and common definitions that `held` names; it is told of the others."""
    out, at = [], 0
    for found in _WEAK.finditer(text):
        if found.start() < at:
            continue
        declared = b".func" in found[0] and text[found.end() : found.end() + 1] == b";"
        if declared or found[1] not in held:
            held |= set() if declared else {found[1]}
            continue
        out.append(text[at : found.start()])
        at = _end_of_definition(text, found.end(), b".func" in found[0])
    return b"".join([*out, text[at:]])


def _end_of_definition(text: bytes, at: int, function: bool) -> int:
    """Where a variable's or a function's definition ends whose name and parameters end at `at`."""
    if not function:
        return text.index(b";", at) + 1
    depth = 0
    for brace in re.finditer(rb"[{}]", text[at:]):
        depth += 1 if brace[0] == b"{" else -1
        if depth == 0:
            return at + brace.end()
    return len(text)


_NAME = b"$L__merged_name"  # .loc has to name the function where it says inlined_at: one label, of no name, for all
_NAME_SECTION = b".section .debug_str\n{\n" + _NAME + b":\n.b8 0\n}\n"


def _without_debug_sections(text: bytes) -> bytes:
    text = re.sub(rb"^\s*\.section\s+\.debug_\w+\s*\{.*?^\s*\}", b"", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(rb"\bfunction_name\s+[^,]+(?=,\s*inlined_at)", b"function_name " + _NAME, text)


def _renumber(text: bytes, by: int) -> bytes:
    """Add to the file numbers of a PTX text."""
    place = re.compile(rb"((?:^\s*\.file|^\s*\.loc|\binlined_at)\s+)(\d+)", re.MULTILINE)
    return place.sub(lambda match: match[1] + str(int(match[2]) + by).encode(), text)


def _patch_dispatcher(module: ModuleType) -> None:
    """numba.cuda.dispatcher"""
    before = module.CUDADispatcher.__init__

    def __init__(self, py_func, targetoptions, *args, **kwargs):
        if not targetoptions.get("debug"):  # debug has line numbers of its own, and the two exclude each other
            targetoptions = {**targetoptions, "lineinfo": True}
        before(self, py_func, targetoptions, *args, **kwargs)

    module.CUDADispatcher.__init__ = __init__


def _patch_codegen(module: ModuleType) -> None:
    """numba.cuda.codegen"""
    magic = module.JITCUDACodegen.magic_tuple
    module.JITCUDACodegen.magic_tuple = lambda self: (*magic(self), "virtual")

    def machine_code(self, cc=None) -> bytes:
        ptx = bytes(self.get_cubin(cc=cc).code).rstrip(b"\0")
        return facts.cubin(ptx, facts.target(ptx.decode()))

    def get_sass(self, cc=None):
        return module.disassemble_cubin(_Code(machine_code(self, cc)))

    def get_sass_cfg(self, cc=None):
        return module.disassemble_cubin_for_cfg(_Code(machine_code(self, cc)))

    module.CUDACodeLibrary.get_sass = get_sass
    module.CUDACodeLibrary.get_sass_cfg = get_sass_cfg


def _patch_debuginfo(module: ModuleType) -> None:
    """numba.cuda.debuginfo"""
    set_module_flags, finalize, var_type = (
        module.DIBuilder._set_module_flags, module.DIBuilder.finalize, module.DIBuilder._var_type
    )  # fmt: skip

    def _set_module_flags(self):
        """Let the version of the debug information, which CUDA C++ marks otherwise, be no reason not to link."""
        set_module_flags(self)
        flags = self.module.get_named_metadata("llvm.module.flags").operands
        for k, flag in enumerate(flags):
            if getattr(flag.operands[1], "string", "") == "Debug Info Version":
                flags[k] = self.module.add_metadata([self._const_int(4), *flag.operands[1:]])  # 4: override
        flags[:] = dict.fromkeys(flags)

    def _finalize(self):
        """LLVM refuses calls without a line where a function has lines: those of reference counts have none."""
        finalize(self)
        for function in self.module.functions:
            scope = function.metadata.get("dbg")
            if scope is None:
                continue
            line = dict(scope.operands)["line"]
            here = self.module.add_debug_info("DILocation", {"line": line, "column": 1, "scope": scope})
            for instruction in (each for block in function.blocks for each in block.instructions):
                if "dbg" in instruction.metadata:
                    here = instruction.metadata["dbg"]
                elif instruction.opname == "call":
                    instruction.set_metadata("dbg", here)

    def _var_type(self, lltype, size, datamodel=None):
        """Arrays of items without a size have no count."""
        if getattr(lltype, "element", None) is not None and not self.cgctx.get_abi_sizeof(lltype.element):
            lltype, datamodel = lltype.element, None
        return var_type(self, lltype, size, datamodel)

    module.DIBuilder._set_module_flags = _set_module_flags
    module.DIBuilder.finalize = _finalize
    module.DIBuilder._var_type = _var_type


class _Code:
    """As much of a cuda.core ObjectCode as numba's disassembler looks at."""

    def __init__(self, code: bytes):
        self.code = code


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "numba.cuda.cudadrv.driver": _patch_driver,
    "numba.cuda.dispatcher": _patch_dispatcher,
    "numba.cuda.codegen": _patch_codegen,
    "numba.cuda.debuginfo": _patch_debuginfo,
}


class _Loader(importlib.abc.Loader):
    """Another loader, and a patch after it."""

    def __init__(self, loader, patch: Callable[[ModuleType], None]):
        self.loader, self.patch = loader, patch

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.patch(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the others find the module, and sees to it that it is patched."""

    def __init__(self):
        self._asking = False

    def find_spec(self, name, path, target=None):
        if name not in _PATCHES or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is not None:
            spec.loader = _Loader(spec.loader, _PATCHES[name])
        return spec


def install() -> None:
    """Patch what is imported already, and the rest when it is."""
    for name, patch in _PATCHES.items():
        if name in sys.modules:
            patch(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
