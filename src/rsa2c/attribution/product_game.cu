// The product game on a GPU; `cuda.py` compiles one program for each game's shape and launches it.
//
//   product_values    Shapley values by quadrature: the sums of `quadrature.py`, factors and products in registers
//   coalition_values  Shapley values of few players, from the values of all coalitions
//   function_values   f at the states
//
// The host defines THREADS, RBF (1 or 0), the kernel that it needs (VALUES, COALITIONS or FUNCTION), and
//   REAL (float or double), PLAYERS, LANES_PER_STATE, VECTOR, NODES, WEIGHTS, PASSES, STAGED   for product_values
//   PLAYERS, OUTPUTS   for coalition_values
//   OUTPUTS   for function_values
// Where GROUPS is defined, player p's features are feature[first[p]], ..., feature[first[p + 1] - 1]; otherwise each
// feature is a player. States are (d, T), features outermost.

template <typename Number>
__device__ __forceinline__ Number log_factor(Number u) {
    if (RBF) return Number(-0.5) * u * u;
    return u < 0 ? u : -u;
}

// The exponent of a player's factor; players beyond the last feature have none.
template <typename Number>
__device__ __forceinline__ Number exponent_of(
    int player, const Number* __restrict__ states, const Number* __restrict__ centre, const int* __restrict__ first,
    const int* __restrict__ feature, long long state, long long count, int d) {
#ifdef GROUPS
    Number exponent = 0;
    for (int k = first[player]; k < first[player + 1]; k++)
        exponent += log_factor(states[feature[k] * count + state] - centre[feature[k]]);
    return exponent;
#else
    return player < d ? log_factor(states[player * count + state] - centre[player]) : Number(0);
#endif
}

__device__ __forceinline__ float factor(float exponent) { return expf(exponent); }
__device__ __forceinline__ double factor(double exponent) { return exp(exponent); }
__device__ __forceinline__ float multiply_add(float u, float v, float w) { return fmaf(u, v, w); }
__device__ __forceinline__ double multiply_add(double u, double v, double w) { return fma(u, v, w); }

#ifdef VALUES

constexpr int COUNT = PLAYERS;  // players of one lane: LANES_PER_STATE neighbouring threads share a state
constexpr int WIDTH = COUNT * LANES_PER_STATE;
constexpr int COPIED = WIDTH * sizeof(REAL) % 16 ? sizeof(REAL) : 16;  // bytes
static __device__ constexpr REAL NODE[] = {NODES};
static __device__ constexpr REAL WEIGHT[] = {WEIGHTS};
struct alignas(VECTOR * sizeof(REAL)) Numbers { REAL at[VECTOR]; };
struct alignas(COPIED) Copied { unsigned char bytes[COPIED]; };

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

// out (splits, m, COUNT, T LANES_PER_STATE) += coefficients^T times the sums of `many` centres, from staged memory.
__device__ __forceinline__ void add_centres(
    const REAL* own, int many, const double* __restrict__ coefficients, double* __restrict__ out, int m,
    long long threads) {
#pragma unroll 2
    for (int o = 0; o < m; o++) {
        double total[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) total[i] = out[((long long)o * COUNT + i) * threads];
        for (int j = 0; j < many; j++) {
            const double c = coefficients[j * m + o];
#pragma unroll
            for (int i = 0; i < COUNT; i++) total[i] = fma(c, double(own[(j * COUNT + i) * THREADS]), total[i]);
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++) out[((long long)o * COUNT + i) * threads] = total[i];
    }
}

// table (q, B, WIDTH): factors of centres and background, in the order (COUNT / VECTOR, LANES_PER_STATE, VECTOR).
// Shared memory holds rows_per_tile rows of it, and before them the sums over the background of STAGED centres, so that
// out is read and written once for all of these.
extern "C" __global__ void __launch_bounds__(THREADS) product_values(
    const REAL* __restrict__ states, const REAL* __restrict__ centres, const REAL* __restrict__ table,
    const double* __restrict__ coefficients, double* __restrict__ out, const int* __restrict__ first,
    const int* __restrict__ feature, int count, int d, int q, int backgrounds, int m, int centres_per_split,
    int rows_per_tile) {
    extern __shared__ __align__(16) unsigned char memory[];
    REAL* const staged = reinterpret_cast<REAL*>(memory) + threadIdx.x;
    unsigned char* const tile = memory + STAGED * COUNT * THREADS * sizeof(REAL);
    const long long thread = blockIdx.x * (long long)THREADS + threadIdx.x;
    const long long threads = (long long)count * LANES_PER_STATE;
    const int lane = threadIdx.x % LANES_PER_STATE;
    const long long state = min(thread / LANES_PER_STATE, (long long)count - 1);  // idle lanes repeat the last state
    const int start = blockIdx.y * centres_per_split, stop = min(q, start + centres_per_split);
    out += blockIdx.y * (m * COUNT * threads) + thread;
    for (int j = start; j < stop; j++) {
        REAL a[COUNT], sum[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            a[i] = factor(exponent_of(lane * COUNT + i, states, centres + j * d, first, feature, state, count, d));
            sum[i] = 0;
        }
        for (int row = 0; row < backgrounds; row += rows_per_tile) {
            const int rows = min(rows_per_tile, backgrounds - row);
            const Copied* const from = reinterpret_cast<const Copied*>(table + ((long long)j * backgrounds + row) * WIDTH);
            __syncthreads();
#pragma unroll 8
            for (int k = threadIdx.x; k < rows * (WIDTH * (int)sizeof(REAL) / COPIED); k += THREADS)
                reinterpret_cast<Copied*>(tile)[k] = from[k];
            __syncthreads();
            for (int r = 0; r < rows; r++) {
                REAL b[COUNT], change[COUNT];
#pragma unroll
                for (int k = 0; k < COUNT / VECTOR; k++) {
                    const int at = (r * (COUNT / VECTOR) + k) * LANES_PER_STATE + lane;
                    const Numbers some = reinterpret_cast<const Numbers*>(tile)[at];
#pragma unroll
                    for (int e = 0; e < VECTOR; e++) b[k * VECTOR + e] = some.at[e];
                }
#pragma unroll
                for (int i = 0; i < COUNT; i++) change[i] = a[i] - b[i];
#define PASS(FIRST, N) add_nodes<FIRST, N>(b, change, sum);
                PASSES
            }
        }
        const int stage = (j - start) % STAGED;
#pragma unroll
        for (int i = 0; i < COUNT; i++) staged[(stage * COUNT + i) * THREADS] = sum[i];
        if (thread < threads && (stage == STAGED - 1 || j == stop - 1))
            add_centres(staged, stage + 1, coefficients + (j - stage) * m, out, m, threads);
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
            const double a = exp(exponent_of(i, states, centres + j * d, first, feature, state, count, d));
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
