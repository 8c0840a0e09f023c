// The product game on a GPU; `cuda.py` compiles one program for each game's shape and launches it.
//
//   product_values    Shapley values by quadrature: the sums of `quadrature.py`, factors and products in registers
//   coalition_values  Shapley values of few players, from the values of all coalitions
//   function_values   f at the states
//
// The host defines REAL (float or double), RBF (1 or 0), THREADS, and
//   PLAYERS, LANES_PER_STATE, VECTOR, NODES, WEIGHTS, PASSES   for product_values
//   PLAYERS, OUTPUTS                                            for coalition_values
//   OUTPUTS                                                     for function_values
// and keeps the kernel that it needs: VALUES, COALITIONS or FUNCTION. States are (d, T), features outermost.

template <typename Number>
__device__ __forceinline__ Number log_factor(Number u) {
    if (RBF) return Number(-0.5) * u * u;
    return u < 0 ? u : -u;
}

__device__ __forceinline__ float factor(float exponent) { return expf(exponent); }
__device__ __forceinline__ double factor(double exponent) { return exp(exponent); }
__device__ __forceinline__ float multiply_add(float u, float v, float w) { return fmaf(u, v, w); }
__device__ __forceinline__ double multiply_add(double u, double v, double w) { return fma(u, v, w); }

#ifdef VALUES

constexpr int COUNT = PLAYERS;  // players of one lane: LANES_PER_STATE neighbouring threads share a state
constexpr int WIDTH = COUNT * LANES_PER_STATE;
static __device__ constexpr REAL NODE[] = {NODES};
static __device__ constexpr REAL WEIGHT[] = {WEIGHTS};
struct alignas(VECTOR * sizeof(REAL)) Numbers { REAL at[VECTOR]; };

// The product of the other lanes' products.
__device__ __forceinline__ REAL others(REAL product) {
    REAL rest = 1;
#pragma unroll
    for (int step = 1; step < LANES_PER_STATE; step *= 2) {
        const REAL theirs = __shfl_xor_sync(0xffffffffu, product, step);
        rest = step == 1 ? theirs : rest * theirs;
        product *= theirs;
    }
    return rest;
}

// Adds to sum_i the terms of N nodes t, from FIRST on: (a_i - b_i) sum_n w_n prod_{l != i} z_l, z = b + t (a - b).
template <int FIRST, int N>
__device__ __forceinline__ void add_nodes(const REAL (&b)[COUNT], const REAL (&change)[COUNT], REAL (&sum)[COUNT]) {
    REAL z[N][COUNT], before[N][COUNT], after[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        REAL product = 1;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            z[n][i] = multiply_add(NODE[FIRST + n], change[i], b[i]);
            before[n][i] = product;
            product = i ? product * z[n][i] : z[n][i];
        }
        after[n] = LANES_PER_STATE == 1 ? WEIGHT[FIRST + n] : WEIGHT[FIRST + n] * others(product);
    }
#pragma unroll
    for (int i = COUNT - 1; i >= 0; i--) {
        REAL all = i ? before[0][i] * after[0] : after[0];
#pragma unroll
        for (int n = 1; n < N; n++) all = i ? multiply_add(before[n][i], after[n], all) : all + after[n];
        sum[i] = multiply_add(change[i], all, sum[i]);
#pragma unroll
        for (int n = 0; n < N; n++) after[n] *= z[n][i];
    }
}

// table (q, B, WIDTH): factors of centres and background, in the order (COUNT / VECTOR, LANES_PER_STATE, VECTOR).
// out (splits, m, COUNT, T LANES_PER_STATE) += coefficients (q, m) times the sums over the background.
// Player p's features are feature[first[p]], ..., feature[first[p + 1] - 1].
extern "C" __global__ void __launch_bounds__(THREADS) product_values(
    const REAL* __restrict__ states, const REAL* __restrict__ centres, const REAL* __restrict__ table,
    const double* __restrict__ coefficients, double* __restrict__ out, const int* __restrict__ first,
    const int* __restrict__ feature, int count, int d, int q, int backgrounds, int m, int centres_per_split,
    int rows_per_tile) {
    extern __shared__ __align__(16) unsigned char memory[];
    Numbers* const tile = reinterpret_cast<Numbers*>(memory);
    const long long thread = blockIdx.x * (long long)THREADS + threadIdx.x;
    const long long threads = (long long)count * LANES_PER_STATE;
    const int lane = threadIdx.x % LANES_PER_STATE;
    const long long state = min(thread / LANES_PER_STATE, (long long)count - 1);  // idle lanes repeat the last state
    const int start = blockIdx.y * centres_per_split, stop = min(q, start + centres_per_split);
    for (int j = start; j < stop; j++) {
        REAL a[COUNT], sum[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int player = lane * COUNT + i;
            REAL exponent = 0;
            for (int k = first[player]; k < first[player + 1]; k++)
                exponent += log_factor<REAL>(states[feature[k] * (long long)count + state] - centres[j * d + feature[k]]);
            a[i] = factor(exponent);
            sum[i] = 0;
        }
        for (int row = 0; row < backgrounds; row += rows_per_tile) {
            const int rows = min(rows_per_tile, backgrounds - row);
            const Numbers* const from =
                reinterpret_cast<const Numbers*>(table + ((long long)j * backgrounds + row) * WIDTH);
            __syncthreads();
            for (int k = threadIdx.x; k < rows * (WIDTH / VECTOR); k += THREADS) tile[k] = from[k];
            __syncthreads();
            for (int r = 0; r < rows; r++) {
                REAL b[COUNT], change[COUNT];
#pragma unroll
                for (int k = 0; k < COUNT / VECTOR; k++) {
                    const Numbers some = tile[(r * (COUNT / VECTOR) + k) * LANES_PER_STATE + lane];
#pragma unroll
                    for (int e = 0; e < VECTOR; e++) b[k * VECTOR + e] = some.at[e];
                }
#pragma unroll
                for (int i = 0; i < COUNT; i++) change[i] = a[i] - b[i];
#define PASS(FIRST, N) add_nodes<FIRST, N>(b, change, sum);
                PASSES
            }
        }
        if (thread < threads)
            for (int o = 0; o < m; o++) {
                const double c = coefficients[j * m + o];
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    out[(((long long)blockIdx.y * m + o) * COUNT + i) * threads + thread] += c * sum[i];
            }
    }
}
#endif

#ifdef COALITIONS

constexpr int COALITION_COUNT = 1 << PLAYERS;

__device__ constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

__device__ constexpr int size(int coalition) { return coalition ? (coalition & 1) + size(coalition >> 1) : 0; }

// v(C) = sum_j (prod_{i in C} a_i) parts_jC, and from it the Shapley values (T, PLAYERS, m).
// parts (chunks, q, 2^PLAYERS, OUTPUTS): coefficients times the background's mean of prod_{i not in C} b_i.
extern "C" __global__ void __launch_bounds__(THREADS) coalition_values(
    const double* __restrict__ states, const double* __restrict__ centres, const double* __restrict__ parts,
    double* __restrict__ out, const int* __restrict__ first, const int* __restrict__ feature, int count, int d, int q,
    int m) {
    const long long state = blockIdx.x * (long long)THREADS + threadIdx.x;
    if (state >= count) return;
    double v[COALITION_COUNT][OUTPUTS] = {};
    for (int j = 0; j < q; j++) {
        double in[COALITION_COUNT];
        in[0] = 1;
#pragma unroll
        for (int i = 0; i < PLAYERS; i++) {
            double exponent = 0;
            for (int k = first[i]; k < first[i + 1]; k++)
                exponent += log_factor<double>(states[feature[k] * (long long)count + state] - centres[j * d + feature[k]]);
            const double a = exp(exponent);
#pragma unroll
            for (int c = 0; c < (1 << i); c++) in[c | (1 << i)] = in[c] * a;
        }
        const double* const part = parts + ((long long)blockIdx.y * q + j) * (COALITION_COUNT * OUTPUTS);
#pragma unroll
        for (int c = 0; c < COALITION_COUNT; c++)
#pragma unroll
            for (int o = 0; o < OUTPUTS; o++) v[c][o] = fma(in[c], part[c * OUTPUTS + o], v[c][o]);
    }
#pragma unroll
    for (int i = 0; i < PLAYERS; i++)
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            double value = 0;
#pragma unroll
            for (int c = 0; c < COALITION_COUNT; c++)
                if (!(c >> i & 1)) {
                    const double weight = factorial(size(c)) * factorial(PLAYERS - 1 - size(c)) / factorial(PLAYERS);
                    value = fma(weight, v[c | (1 << i)][o] - v[c][o], value);
                }
            const int output = blockIdx.y * OUTPUTS + o;
            if (output < m) out[(state * PLAYERS + i) * m + output] = value;
        }
}
#endif

#ifdef FUNCTION

constexpr int TOGETHER = 4;  // centres that share the loads of a state

// out (T, m): sum_j coefficients_j k(state, centre_j).
extern "C" __global__ void __launch_bounds__(THREADS) function_values(
    const double* __restrict__ states, const double* __restrict__ centres, const double* __restrict__ coefficients,
    double* __restrict__ out, int count, int d, int q, int m) {
    const long long state = blockIdx.x * (long long)THREADS + threadIdx.x;
    if (state >= count) return;
    double f[OUTPUTS] = {};
    for (int j = 0; j < q; j += TOGETHER) {
        double exponent[TOGETHER] = {};
        for (int i = 0; i < d; i++) {
            const double x = states[i * (long long)count + state];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) exponent[k] += log_factor<double>(x - centres[min(j + k, q - 1) * d + i]);
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            if (j + k < q) {
                const double value = exp(exponent[k]);
#pragma unroll
                for (int o = 0; o < OUTPUTS; o++) {
                    const int output = blockIdx.y * OUTPUTS + o;
                    if (output < m) f[o] = fma(value, coefficients[(j + k) * m + output], f[o]);
                }
            }
    }
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) {
        const int output = blockIdx.y * OUTPUTS + o;
        if (output < m) out[state * m + output] = f[o];
    }
}
#endif
