/* The output layer's pass on a CPU (the formulas stand in fused.py).

   W, W*, m and v are stored as tiles [K][N]: N rows of the layer, K = h + 1 columns, the last one the bias. Compiled for one K and one precision.
   Rows are summed in chunks whose size follows from the layer's alone, so that results do not depend on the number of threads. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#ifdef DOUBLE
typedef double real;
#define ROOT sqrt
#else
typedef float real;
#define ROOT sqrtf
#endif

#define N 64     /* rows in a tile */
#define LANES 16 /* partial sums per entry of the hidden vectors' gradient */

/* Sums stay in registers for BLOCK tasks or columns and STRIP vectors of rows at a time, so that each number read serves
   several of them. */
#define BLOCK 4
#if defined(__AVX512F__)
#define WIDTH 64 /* bytes in a register */
#define STRIP 4
#else
#define STRIP 2
#if defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#endif
#define WIDE ((int)(WIDTH / sizeof(real))) /* numbers in a register */
typedef real vector __attribute__((vector_size(WIDTH), aligned(sizeof(real)), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 8")

/* Calls f with the number of those left, BLOCK at most, as a constant. */
#define IN_A_BLOCK(f, left, ...) \
    switch (left) { \
    case 1: f(1, __VA_ARGS__); break; \
    case 2: f(2, __VA_ARGS__); break; \
    case 3: f(3, __VA_ARGS__); break; \
    default: f(BLOCK, __VA_ARGS__); \
    }

/* Subnormal numbers count as zero until `restore_rounding`, in this thread. Moments of entries without a gradient decay to
   such numbers and stay there, where arithmetic is a hundred times slower on many processors; next to epsilon they are nothing. */
static uint64_t flush_subnormals(void)
{
#if defined(__SSE__)
    const unsigned state = _mm_getcsr();
    _mm_setcsr(state | 0x8040); /* flush to zero, denormals are zero */
    return state;
#elif defined(__aarch64__)
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    __asm__ volatile("msr fpcr, %0" : : "r"(state | (1u << 24)));
    return state;
#else
    return 0;
#endif
}

static void restore_rounding(uint64_t state)
{
#if defined(__SSE__)
    _mm_setcsr((unsigned)state);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(state));
#else
    (void)state;
#endif
}

/* Asks for a column of a tile, N numbers, ahead of its use. */
static inline void prefetch(const real *column)
{
    for (size_t r = 0; r < N; r += 64 / sizeof(real))
        __builtin_prefetch(column + r);
}

/* out[P] = W u. Here and below threads take their next part when they have done one: where another program has one of the
   cores for a while, a fixed half would keep the other waiting. */
void output_forward(ptrdiff_t tiles, const real *restrict weights, const real *restrict u, real *restrict out)
{
#pragma omp parallel for schedule(dynamic, 64)
    for (ptrdiff_t i = 0; i < tiles; i++) {
        const real(*w)[N] = (const real(*)[N])(weights + i * K * N);
        real sum[N] = {0};
        for (int k = 0; k < K; k++)
#pragma omp simd
            for (int r = 0; r < N; r++)
                sum[r] += w[k][r] * u[k];
        memcpy(out + i * N, sum, sizeof sum);
    }
}

INLINE vector load(const real *numbers)
{
    return *(const vector *)numbers;
}

INLINE void store(real *numbers, vector value)
{
    *(vector *)numbers = value;
}

/* residual[n][N] of n previous tasks: (W - W*) u + W* e, for a tile. */
INLINE void residuals(const int n, const real (*w)[N], const real (*ws)[N], const real *u, const real *e, real (*residual)[N])
{
    for (int row = 0; row < N; row += STRIP * WIDE) {
        vector sum[BLOCK][STRIP] = {{{0}}};
        for (int k = 0; k < K; k++) {
            vector start[STRIP], change[STRIP];
            UNROLLED for (int s = 0; s < STRIP; s++) {
                start[s] = load(ws[k] + row + s * WIDE);
                change[s] = load(w[k] + row + s * WIDE) - start[s];
            }
            UNROLLED for (int j = 0; j < n; j++)
                UNROLLED for (int s = 0; s < STRIP; s++)
                    sum[j][s] += change[s] * u[j * K + k] + start[s] * e[j * K + k];
        }
        UNROLLED for (int j = 0; j < n; j++)
            UNROLLED for (int s = 0; s < STRIP; s++)
                store(residual[j] + row + s * WIDE, sum[j][s]);
    }
}

/* sums[n][K][LANES] += W^T q for n tasks, for a tile. */
INLINE void add_products(const int n, const real (*w)[N], const real (*q)[N], real *sums)
{
    for (int row = 0; row < N; row += STRIP * WIDE) {
        vector of_rows[BLOCK][STRIP];
        UNROLLED for (int j = 0; j < n; j++)
            UNROLLED for (int s = 0; s < STRIP; s++)
                of_rows[j][s] = load(q[j] + row + s * WIDE);
        for (int k = 0; k < K; k++) {
            vector weights[STRIP];
            UNROLLED for (int s = 0; s < STRIP; s++)
                weights[s] = load(w[k] + row + s * WIDE);
            UNROLLED for (int j = 0; j < n; j++)
                UNROLLED for (int s = 0; s < STRIP; s++) {
                    real *sum = sums + (j * K + k) * LANES + (row + s * WIDE) % LANES;
                    store(sum, load(sum) + of_rows[j][s] * weights[s]);
                }
        }
    }
}

/* gradient[n][N] = q u^T for n columns, over t + 1 tasks, for a tile. */
INLINE void gradients(const int n, int t, const real (*q)[N], const real *u, real (*gradient)[N])
{
    for (int row = 0; row < N; row += STRIP * WIDE) {
        vector sum[BLOCK][STRIP] = {{{0}}};
        for (int j = 0; j <= t; j++)
            UNROLLED for (int s = 0; s < STRIP; s++) {
                const vector of_rows = load(q[j] + row + s * WIDE);
                UNROLLED for (int k = 0; k < n; k++)
                    sum[k][s] += of_rows * u[j * K + k];
            }
        UNROLLED for (int k = 0; k < n; k++)
            UNROLLED for (int s = 0; s < STRIP; s++)
                store(gradient[k] + row + s * WIDE, sum[k][s]);
    }
}

/* One step. Every `chunk` tiles share their partial sums. g[P]: gradient for the current task's output; u[t+1][K]: hidden
   vectors, the current task's last; e[t][K]: their change since the start of the task. Updates W, m and v by Adam (rate already
   divided by its bias correction); writes |R|^2 per chunk to squares[chunks] and W^T [2 kappa R, g] as partial sums to
   hidden_gradient[chunks][t+1][K][LANES]. */
void output_update(ptrdiff_t tiles, ptrdiff_t chunk, int t, real *restrict weights, const real *restrict start,
                   real *restrict first, real *restrict second, const real *restrict g, const real *restrict u,
                   const real *restrict e, real *restrict hidden_gradient, double *restrict squares, real two_kappa, real rate,
                   real inverse_root_correction, real beta1, real beta2, real epsilon)
{
    const ptrdiff_t chunks = (tiles + chunk - 1) / chunk;
#pragma omp parallel for schedule(dynamic)
    for (ptrdiff_t c = 0; c < chunks; c++) {
        const uint64_t rounding = flush_subnormals();
        real *restrict partial = hidden_gradient + (size_t)c * (t + 1) * K * LANES;
        memset(partial, 0, sizeof(real) * (t + 1) * K * LANES);
        double square = 0;
        real q[t + 1][N]; /* 2 kappa R, then g: row weights of the gradient */
        real gradient[BLOCK][N];
        for (ptrdiff_t i = c * chunk; i < (c + 1) * chunk && i < tiles; i++) {
            real(*restrict w)[N] = (real(*)[N])(weights + i * K * N);
            const real(*restrict ws)[N] = (const real(*)[N])(start + i * K * N);
            real(*restrict m)[N] = (real(*)[N])(first + i * K * N);
            real(*restrict v)[N] = (real(*)[N])(second + i * K * N);
            for (int j = 0; j < t; j += BLOCK)
                IN_A_BLOCK(residuals, t - j, w, ws, u + j * K, e + j * K, q + j)
            for (int j = 0; j < t; j++) {
                real sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int r = 0; r < N; r++) {
                    sum += q[j][r] * q[j][r];
                    q[j][r] *= two_kappa;
                }
                square += sum;
            }
            memcpy(q[t], g + i * N, sizeof q[t]);
            for (int k = 0; k < K; k++) {
                prefetch(m[k]);
                prefetch(v[k]);
            }
            for (int j = 0; j <= t; j += BLOCK)
                IN_A_BLOCK(add_products, t + 1 - j, w, q + j, partial + j * K * LANES)
            for (int first_k = 0; first_k < K; first_k += BLOCK) {
                IN_A_BLOCK(gradients, K - first_k, t, q, u + first_k, gradient)
                for (int k = first_k; k < first_k + BLOCK && k < K; k++) {
                    if (i + 1 < tiles) {
                        prefetch(w[K + k]);
                        if (t > 0)
                            prefetch(ws[K + k]);
                    }
#pragma omp simd
                    for (int r = 0; r < N; r++) {
                        const real m_new = m[k][r] + (1 - beta1) * (gradient[k - first_k][r] - m[k][r]);
                        const real v_new =
                            beta2 * v[k][r] + (1 - beta2) * gradient[k - first_k][r] * gradient[k - first_k][r];
                        m[k][r] = m_new;
                        v[k][r] = v_new;
                        w[k][r] -= rate * m_new / (ROOT(v_new) * inverse_root_correction + epsilon);
                    }
                }
            }
        }
        squares[c] = square;
        restore_rounding(rounding);
    }
}
