"""Library Management and Module Management: PTX text in, kernels and variables out.

A CUlibrary and a CUmodule are one class here, and so are a CUkernel and a CUfunction. A library is parsed once for each
context that uses it, since its variables have addresses.
"""

from __future__ import annotations

import ctypes
import functools
import re

from grader.vgpu.driver import errors, facts, recorder
from grader.vgpu.driver.abi import cstr, entry, i32, opt, out, ptr, say, size, u32, u64
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.memory import Allocation
from grader.vgpu.driver.state import DEVICE, KERNEL, LIBRARY, Context, Object, driver

# CUfunction_attribute
MAX_THREADS, SHARED, CONSTANT, LOCAL, REGISTERS, PTX_VERSION, BINARY_VERSION, CACHE_MODE = range(8)
MAX_DYNAMIC_SHARED, CARVEOUT = 8, 9
_SETTABLE = {MAX_DYNAMIC_SHARED: "max_dynamic_shared", CARVEOUT: "carveout", 14: "non_portable_cluster", 15: "cluster"}
_CLUSTER_SIZE = (11, 12, 13)  # REQUIRED_CLUSTER_WIDTH, _HEIGHT, _DEPTH
SHARED_WITHOUT_OPTIN = 48 << 10  # bytes a block, static and dynamic


class Library(Object):
    """Linked PTX."""

    def __init__(self, ptx: bytes, context: Context):
        text = ptx.decode(errors="replace")
        arch = facts.target(text)
        if arch is None:
            raise CudaError(errors.INVALID_PTX, "the PTX has no .target line")
        arch = _target_here(arch, context)
        self.clusters = facts.clusters(text)
        try:
            self.facts = facts.assemble(ptx, arch)
        except facts.Refused as refused:
            raise CudaError(errors.INVALID_PTX, f"ptxas refuses the PTX: {refused}") from None
        except facts.NoAssembler as absent:
            raise CudaError(errors.JIT_COMPILER_NOT_FOUND, f"nvJitLink is needed and is not there: {absent}") from None
        super().__init__()
        self.ptx = ptx
        self.arch = arch
        self.number = driver.number("module")
        self._modules: dict[Context, object] = {}
        self.kernels: dict[str, Kernel] = {}
        self.module(context)
        if recorder.recording():
            recorder.emit("module", context.device.ordinal, module=self.number, ptx=ptx)

    def module(self, context: Context):
        """The machine's module in this context, loaded if it is not there yet. Raises CudaError INVALID_PTX."""
        if context not in self._modules:
            from grader.vgpu.machine import Module, ModuleError

            try:
                module = self._modules[context] = Module(self.ptx, context.memory)
            except ModuleError as error:
                raise CudaError(errors.INVALID_PTX, f"the virtual GPU cannot run this kernel: {error}") from None
            context.modules.add(_Loaded(self, context))
            for address, nbytes in module.symbols.values():
                Allocation(context, address, nbytes, "symbol")
        return self._modules[context]

    def kernel(self, name: str, context: Context) -> Kernel:
        """The kernel of this name. Raises CudaError NOT_FOUND."""
        if name not in self.kernels:
            if name not in self.module(context).kernels:
                raise CudaError(errors.NOT_FOUND)
            self.kernels[name] = Kernel(self, name, context)
        return self.kernels[name]

    def forget(self, context: Context) -> None:
        """The context is going, and its memory with it."""
        self._modules.pop(context, None)

    def unload(self) -> None:
        """Wait for work that uses it, and unload it everywhere."""
        from grader.vgpu.driver.queue import complete

        for context, module in self._modules.items():
            if context.alive and not context.fault:
                complete(*[stream.last for stream in context.streams])
            context.modules = {loaded for loaded in context.modules if loaded.library is not self}
            for address, _ in module.symbols.values():
                driver.allocations[address].forget()
            module.unload()
        self._modules.clear()
        for kernel in self.kernels.values():
            kernel.release()
        self.release()
        if recorder.recording():
            recorder.emit("module_unload", 0, module=self.number)


class _Loaded:
    """A library in one context."""

    def __init__(self, library: Library, context: Context):
        self.library, self.context = library, context

    def forget(self) -> None:
        """See Library.forget."""
        self.library.forget(self.context)


class Kernel(Object):
    """A kernel and its attributes."""

    def __init__(self, library: Library, name: str, context: Context):
        super().__init__()
        self.library = library
        self.name = name
        code = self.code(context)
        self.params = [tuple(param) for param in code.params]
        self.param_bytes = code.param_bytes
        self.static_shared = code.shared_bytes
        self.local_bytes = code.local_bytes
        self.launch_bound = code.max_threads  # threads a block; None or 0 without .maxntid
        self.facts = library.facts.get(name) or facts.Facts(0, 0, 0, 0, 0, 0, 0)
        self.cluster = library.clusters.get(name, (1, 1, 1))  # blocks, by its PTX; None: the launch must say
        self.set_attributes: dict[int, int] = {}
        self._name = ctypes.create_string_buffer(name.encode())

    def code(self, context: Context):
        """The machine's kernel in this context."""
        return self.library.module(context).kernels[self.name]

    def compile(self, context: Context) -> None:
        """Compile it if it is not. Raises CudaError INVALID_PTX for an opcode that the machine does not have."""
        from grader.vgpu.machine import ModuleError

        try:
            self.code(context).code()
        except ModuleError as error:
            raise CudaError(errors.INVALID_PTX, f"the virtual GPU cannot run this kernel: {error}") from None

    @functools.cached_property
    def mix(self) -> dict[int, int]:
        """Instructions of its machine code by pipe (grader.vgpu.model.costs), for the clock."""
        from grader.vgpu.model.sass import mix

        return mix(facts.cubin(self.library.ptx, self.library.arch), self.name)

    @property
    def max_dynamic(self) -> int:
        """Bytes of dynamic shared memory that a launch may ask for."""
        return self.set_attributes.get(MAX_DYNAMIC_SHARED, max(0, SHARED_WITHOUT_OPTIN - self.static_shared))

    def max_threads(self, context: Context) -> int:
        """Threads a block: by launch bounds, and by registers."""
        most = self.launch_bound or 1024
        if self.facts.registers:
            from grader.vgpu.driver.occupancy import PARTS, REGISTER_UNIT, REGISTERS_PER_SM

            a_warp = -(-self.facts.registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
            most = min(most, REGISTERS_PER_SM // PARTS // a_warp * PARTS * 32)
        return min(most, 1024)

    @functools.lru_cache(maxsize=64)  # noqa: B019  (kernels are few and live as long as their module)
    def _resident(self, context: Context, threads: int, dynamic: int) -> int:
        from grader.vgpu.driver.occupancy import of_kernel

        return of_kernel(self, context, threads, dynamic) * context.sms

    def resident_blocks(self, context: Context, block: tuple[int, int, int], dynamic: int) -> int:
        """Blocks of such a launch that the device (or the green context's part of it) holds at once."""
        return self._resident(context, block[0] * block[1] * block[2], dynamic)

    def share(self, work, context: Context) -> float:
        """The part of the device that a launch takes, at most 1."""
        resident = self.resident_blocks(context, work.block, work.shared)
        blocks = work.grid[0] * work.grid[1] * work.grid[2]
        part = context.sms / context.device.card.sms
        return min(1.0, blocks / resident) * part if resident else part

    def attribute(self, which: int, context: Context) -> int:
        """CUfunction_attribute. Raises CudaError INVALID_VALUE for one that does not exist."""
        version = int(re.sub(r"\D", "", self.library.arch))
        values = {
            MAX_THREADS: self.max_threads(context),
            SHARED: self.static_shared,
            CONSTANT: self.facts.constant_bytes,
            LOCAL: max(self.facts.stack_bytes, 0),
            REGISTERS: self.facts.registers,
            PTX_VERSION: version,
            BINARY_VERSION: version,
            CACHE_MODE: 0,
            MAX_DYNAMIC_SHARED: self.max_dynamic,
            CARVEOUT: self.set_attributes.get(CARVEOUT, -1),
        }
        if not 0 <= which <= 17:
            raise CudaError(errors.INVALID_VALUE)
        return values.get(which, self.set_attributes.get(which, 0))

    def set_attribute(self, which: int, value: int, context: Context) -> None:
        """Raises CudaError INVALID_VALUE where the card does not allow it."""
        if which in _CLUSTER_SIZE:
            if value == 1:
                return  # what it is
            raise CudaError(errors.NOT_SUPPORTED, errors.NO_CLUSTERS)
        if which not in _SETTABLE:
            raise CudaError(errors.INVALID_VALUE)
        most = context.device.card.limits.shared_per_block_optin - self.static_shared
        if which == MAX_DYNAMIC_SHARED and not 0 <= value <= most:
            raise CudaError(
                errors.INVALID_VALUE,
                f"{value} bytes of dynamic shared memory a block do not fit: {context.device.card.name} has {most} "
                f"beside the {self.static_shared} static ones",
            )
        if which == CARVEOUT and not -1 <= value <= 100:
            raise CudaError(errors.INVALID_VALUE)
        self.set_attributes[which] = value
        if recorder.recording():
            recorder.emit(
                "attribute",
                context.device.ordinal,
                module=self.library.number,
                kernel=self.name,
                name=_SETTABLE[which],
                value=value,
            )


def _target_here(arch: str, context: Context) -> str:
    """The architecture that PTX for `arch` is assembled for on this device. Raises CudaError NO_BINARY_FOR_GPU.

    PTX runs on its own architecture and newer ones; with the suffix "a" on that one alone, with "f" on its family.
    """
    major, minor = context.device.card.cc
    number = int(re.sub(r"\D", "", arch))
    here = 10 * major + minor
    if number > here or (arch[-1] == "a" and number != here) or (arch[-1] == "f" and number // 10 != major):
        raise CudaError(
            errors.NO_BINARY_FOR_GPU, f"the code is for {arch}, and {context.device.card.name} is of cc {major}.{minor}"
        )
    return arch if arch[-1] in "af" else f"sm_{here}"


def _image(address: int) -> bytes:
    """The PTX at this address. Raises CudaError for machine code, which cannot be run here."""
    if not address:
        raise CudaError(errors.INVALID_VALUE)
    magic = ctypes.string_at(address, 4)
    if magic == b"\x7fELF" or magic == b"\x50\xed\x55\xba" or magic == b"\xb1\x43\x62\x46":
        raise CudaError(
            errors.NO_BINARY_FOR_GPU,
            "the virtual GPU executes PTX and was given machine code (a cubin or fatbin): compile to PTX instead, with "
            "cuda.core `Program(...).compile('ptx')` or `ObjectCode.from_ptx`",
        )
    return ctypes.string_at(address)


def _load_file(name: bytes, ctx: Context) -> Library:
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError:
        raise CudaError(errors.FILE_NOT_FOUND) from None
    buffer = ctypes.create_string_buffer(data)
    return Library(_image(ctypes.addressof(buffer)), ctx)


def _symbol(library: Library, name: bytes, ctx: Context) -> tuple[int, int]:
    found = library.module(ctx).symbols.get(name.decode(errors="replace"))
    if found is None:
        raise CudaError(errors.NOT_FOUND)
    address, nbytes = found
    if recorder.recording():
        recorder.emit(
            "symbol",
            ctx.device.ordinal,
            module=library.number,
            name=name.decode(errors="replace"),
            address=address,
            nbytes=nbytes,
        )
    return address, nbytes


@entry("cuLibraryLoadData", out(u64), ptr, ptr, ptr, u32, ptr, ptr, u32)
def library_load_data(ctx, code, _options, _values, _n, _library_options, _library_values, _m):
    return Library(_image(code), ctx).handle


@entry("cuModuleLoadData", "cuModuleLoadFatBinary", out(u64), ptr)
def module_load_data(ctx, image):
    return Library(_image(image), ctx).handle


@entry("cuModuleLoadDataEx", out(u64), ptr, u32, ptr, ptr)
def module_load_data_ex(ctx, image, _n, _options, _values):
    return Library(_image(image), ctx).handle


@entry("cuLibraryLoadFromFile", out(u64), cstr, ptr, ptr, u32, ptr, ptr, u32)
def library_load_from_file(ctx, name, _options, _values, _n, _library_options, _library_values, _m):
    return _load_file(name, ctx).handle


@entry("cuModuleLoad", out(u64), cstr)
def module_load(ctx, name):
    return _load_file(name, ctx).handle


@entry("cuLibraryUnload", "cuModuleUnload", LIBRARY, context=False)
def library_unload(library):
    library.unload()


@entry("cuModuleGetLoadingMode", out(u32))
def module_get_loading_mode(ctx):
    return 1  # CU_MODULE_EAGER_LOADING


@entry("cuLibraryGetModule", out(u64), LIBRARY)
def library_get_module(ctx, library):
    return library.handle


@entry("cuLibraryGetKernel", "cuModuleGetFunction", out(u64), LIBRARY, cstr)
def library_get_kernel(ctx, library, name):
    return library.kernel(name.decode(errors="replace"), ctx).handle


@entry("cuLibraryGetKernelCount", "cuModuleGetFunctionCount", out(u32), LIBRARY)
def library_get_kernel_count(ctx, library):
    return len(library.module(ctx).kernels)


@entry("cuLibraryEnumerateKernels", ptr, u32, LIBRARY)
def library_enumerate_kernels(ctx, kernels, n, library):
    _enumerate(ctx, kernels, n, library)


@entry("cuModuleEnumerateFunctions", ptr, u32, LIBRARY)
def module_enumerate_functions(ctx, functions, n, library):
    _enumerate(ctx, functions, n, library)


def _enumerate(ctx: Context, where: int, n: int, library: Library) -> None:
    if not where:
        raise CudaError(errors.INVALID_VALUE)
    array = (ctypes.c_uint64 * n).from_address(where)
    for k, name in zip(range(n), library.module(ctx).kernels, strict=False):
        array[k] = library.kernel(name, ctx).handle


@entry("cuLibraryGetGlobal", "cuModuleGetGlobal", opt(u64), opt(size), LIBRARY, cstr)
def library_get_global(ctx, library, name):
    return _symbol(library, name, ctx)


@entry("cuKernelGetFunction", out(u64), KERNEL)
def kernel_get_function(ctx, kernel):
    kernel.code(ctx)
    return kernel.handle


@entry("cuKernelGetLibrary", out(u64), KERNEL)
def kernel_get_library(ctx, kernel):
    return kernel.library.handle


@entry("cuFuncGetModule", out(u64), KERNEL)
def func_get_module(ctx, kernel):
    return kernel.library.handle


@entry("cuKernelGetName", "cuFuncGetName", out(u64), KERNEL)
def kernel_get_name(ctx, kernel):
    return ctypes.addressof(kernel._name)


@entry("cuKernelGetParamInfo", "cuFuncGetParamInfo", KERNEL, size, out(size), opt(size))
def kernel_get_param_info(ctx, kernel, index):
    if index >= len(kernel.params):
        raise CudaError(errors.INVALID_VALUE)
    return kernel.params[index]


@entry("cuKernelGetParamCount", "cuFuncGetParamCount", KERNEL, out(size))
def kernel_get_param_count(ctx, kernel):
    return len(kernel.params)


@entry("cuKernelGetAttribute", out(i32), i32, KERNEL, DEVICE)
def kernel_get_attribute(ctx, which, kernel, device):
    return kernel.attribute(which, ctx)


@entry("cuKernelSetAttribute", i32, i32, KERNEL, DEVICE)
def kernel_set_attribute(ctx, which, value, kernel, device):
    kernel.set_attribute(which, value, ctx)


@entry("cuFuncGetAttribute", out(i32), i32, KERNEL)
def func_get_attribute(ctx, which, kernel):
    return kernel.attribute(which, ctx)


@entry("cuFuncSetAttribute", KERNEL, i32, i32)
def func_set_attribute(ctx, kernel, which, value):
    kernel.set_attribute(which, value, ctx)


@entry("cuFuncIsLoaded", out(u32), KERNEL)
def func_is_loaded(ctx, kernel):
    return 1  # CU_FUNCTION_LOADING_STATE_LOADED


@entry("cuFuncLoad", KERNEL)
def func_load(ctx, kernel):
    kernel.code(ctx)


@entry("cuKernelSetCacheConfig", KERNEL, u32, DEVICE)
def kernel_set_cache_config(ctx, kernel, config, device):
    _cache_config(config)


@entry("cuFuncSetCacheConfig", KERNEL, u32)
def func_set_cache_config(ctx, kernel, config):
    _cache_config(config)


def _cache_config(config: int) -> None:
    """A preference that cards of cc 7.0 and newer are free to ignore, and do."""
    if config > 3:
        raise CudaError(errors.INVALID_VALUE)


@entry("cuLibraryGetUnifiedFunction", out(u64), LIBRARY, cstr)
def library_get_unified_function(ctx, library, symbol):
    say("unified function pointers are not supported by the virtual GPU")
    raise CudaError(errors.NOT_FOUND)


@entry("cuLibraryGetManaged", opt(u64), opt(size), LIBRARY, cstr)
def library_get_managed(ctx, library, name):
    return _symbol(library, name, ctx)
