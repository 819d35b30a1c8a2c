// C = A B and C = A A^T with A of n x 32 and B of 32 x n, by blocks of 32 x 32 threads: how much of what the threads share
// is fetched once, through shared memory.

#define T 32

extern "C" __global__ void simple(int n, const float *a, const float *b, float *c) {
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += a[row * T + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void tile_of_a(int n, const float *a, const float *b, float *c) {
    __shared__ float as[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
    as[y][x] = a[row * T + x];
    __syncwarp();
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += as[y][k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void tiles_of_both(int n, const float *a, const float *b, float *c) {
    __shared__ float as[T][T], bs[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
    as[y][x] = a[row * T + x];
    bs[y][x] = b[y * n + column];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += as[y][k] * bs[k][x];
    c[row * n + column] = sum;
}

extern "C" __global__ void square_simple(int n, const float *a, float *c) {
    int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += a[row * T + k] * a[column * T + k];
    c[row * n + column] = sum;
}

extern "C" __global__ void square_tiled(int n, const float *a, float *c) {
    __shared__ float as[T][T], bs[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
    as[y][x] = a[row * T + x];
    bs[x][y] = a[(blockIdx.x * T + y) * T + x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += as[y][k] * bs[k][x];
    c[row * n + column] = sum;
}

extern "C" __global__ void square_padded(int n, const float *a, float *c) {
    __shared__ float as[T][T], bs[T][T + 1];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
    as[y][x] = a[row * T + x];
    bs[x][y] = a[(blockIdx.x * T + y) * T + x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += as[y][k] * bs[k][x];
    c[row * n + column] = sum;
}
