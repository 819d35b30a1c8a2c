// A ladder of single-precision matrix products, C = A * B, n x n, each rung doing what its name says.

extern "C" __global__ void naive(int n, const float *a, const float *b, float *c) {
    int row = blockIdx.x * 32 + threadIdx.x, column = blockIdx.y * 32 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void coalesced(int n, const float *a, const float *b, float *c) {
    int row = blockIdx.x * 32 + threadIdx.y, column = blockIdx.y * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void tiled(int n, const float *a, const float *b, float *c) {
    __shared__ float as[32][32], bs[32][32];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.x * 32 + y, column = blockIdx.y * 32 + x;
    float sum = 0;
    for (int t = 0; t < n; t += 32) {
        as[y][x] = a[row * n + t + x];
        bs[y][x] = b[(t + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// 64 x 64 of C a block of 512 threads, 8 results of one column a thread.
extern "C" __global__ void column8(int n, const float *a, const float *b, float *c) {
    __shared__ float as[64][8], bs[8][64];
    int x = threadIdx.x % 64, y = threadIdx.x / 64;
    a += blockIdx.y * 64 * n;
    b += blockIdx.x * 64;
    c += blockIdx.y * 64 * n + blockIdx.x * 64;
    float sum[8] = {};
    for (int t = 0; t < n; t += 8) {
        as[threadIdx.x / 8][threadIdx.x % 8] = a[(threadIdx.x / 8) * n + t + threadIdx.x % 8];
        bs[y][x] = b[(t + y) * n + x];
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float value = bs[k][x];
            for (int r = 0; r < 8; ++r) sum[r] += as[y * 8 + r][k] * value;
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; ++r) c[(y * 8 + r) * n + x] = sum[r];
}

// 128 x 128 of C a block of 256 threads, 8 x 8 results a thread.
extern "C" __global__ void square8(int n, const float *a, const float *b, float *c) {
    __shared__ __align__(16) float as[128][8], bs[8][128];
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    a += blockIdx.y * 128 * n;
    b += blockIdx.x * 128;
    c += blockIdx.y * 128 * n + blockIdx.x * 128;
    float sum[8][8] = {}, left[8], right[8];
    for (int t = 0; t < n; t += 8) {
        for (int r = 0; r < 128; r += 32) as[threadIdx.x / 8 + r][threadIdx.x % 8] = a[(threadIdx.x / 8 + r) * n + t + threadIdx.x % 8];
        for (int r = 0; r < 8; r += 2) bs[threadIdx.x / 128 + r][threadIdx.x % 128] = b[(t + threadIdx.x / 128 + r) * n + threadIdx.x % 128];
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            for (int r = 0; r < 8; ++r) left[r] = as[y * 8 + r][k];
            for (int r = 0; r < 8; ++r) right[r] = bs[k][x * 8 + r];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) c[(y * 8 + i) * n + x * 8 + j] = sum[i][j];
}
