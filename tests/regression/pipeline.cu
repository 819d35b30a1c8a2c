// A tiled matrix product whose tiles come in by plain loads, or by cp.async into two buffers, one tile ahead.

__device__ void fetch(float *shared, const float *global) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(global));
}

extern "C" __global__ void one_buffer(int n, const float *a, const float *b, float *c) {
    __shared__ float as[16][16], bs[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        as[y][x] = a[row * n + t + x];
        bs[y][x] = b[(t + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void two_buffers(int n, const float *a, const float *b, float *c) {
    __shared__ float as[2][16][16], bs[2][16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    fetch(&as[0][y][x], &a[row * n + x]);
    fetch(&bs[0][y][x], &b[y * n + column]);
    asm volatile("cp.async.commit_group;");
    float sum = 0;
    for (int t = 0, now = 0; t < n; t += 16, now ^= 1) {
        if (t + 16 < n) {
            fetch(&as[now ^ 1][y][x], &a[row * n + t + 16 + x]);
            fetch(&bs[now ^ 1][y][x], &b[(t + 16 + y) * n + column]);
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += as[now][y][k] * bs[now][k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
