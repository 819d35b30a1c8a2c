"""PTX instructions to machine code: LLVM IR over vectors of 32 lanes, one function a kernel, run a warp at a time."""
