// How fast one SM loads from its L1, by stride: each thread reads the same words again and again.

extern "C" __global__ void l1_stride(int stride, int rounds, int zero, const float *a, float *out) {
    const float *p = a + threadIdx.x % 32 * stride;
    float sum = 0;
    for (int k = 0; k < rounds; ++k) {
        for (int j = 0; j < 16; ++j) sum += __ldca(p + 1024 * j);
        p += zero; // which the compiler does not know to be 0
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void copy(int n, const float *a, float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}

extern "C" __global__ void add(int n, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = x[i] + y[i];
}

extern "C" __global__ void offset_copy(int offset, const float *a, float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + offset;
    b[i] = a[i];
}

extern "C" __global__ void strided_copy(int n, int stride, const float *a, float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = (long long)i * stride % n + (long long)i * stride / n;
    if (i < n) b[k] = a[k];
}

// Transposes of 32 x 32 tiles by blocks of 32 x 8 threads.
extern "C" __global__ void transpose_copy(int n, const float *a, float *b) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[(y + j) * n + x] = a[(y + j) * n + x];
}

extern "C" __global__ void transpose_naive(int n, const float *a, float *b) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[x * n + y + j] = a[(y + j) * n + x];
}

extern "C" __global__ void transpose_tile(int n, const float *a, float *b) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_padded(int n, const float *a, float *b) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
