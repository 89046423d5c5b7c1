/* The output layer's pass on a CPU (the formulas stand in fused.py).

   W, W*, m and v are stored as tiles [K][N]: N rows of the layer, K = h + 1 columns, the last one the bias. Compiled for one K and one precision.
   Rows are summed in chunks of a fixed size, so that results do not depend on the number of threads. */
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
#define CHUNK 64 /* tiles that share their partial sums */

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

/* out[P] = W u */
void output_forward(ptrdiff_t tiles, const real *restrict weights, const real *restrict u, real *restrict out)
{
#pragma omp parallel for schedule(static)
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

/* One step. g[P]: gradient for the current task's output; u[t+1][K]: hidden vectors, the current task's last; e[t][K]: their
   change since the start of the task. Updates W, m and v by Adam (rate already divided by its bias correction); writes
   |R|^2 per chunk to squares[chunks] and W^T [2 kappa R, g] as partial sums to hidden_gradient[chunks][t+1][K][LANES]. */
void output_update(ptrdiff_t tiles, int t, real *restrict weights, const real *restrict start, real *restrict first,
                   real *restrict second, const real *restrict g, const real *restrict u, const real *restrict e,
                   real *restrict hidden_gradient, double *restrict squares, real two_kappa, real rate,
                   real inverse_root_correction, real beta1, real beta2, real epsilon)
{
    const ptrdiff_t chunks = (tiles + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static)
    for (ptrdiff_t c = 0; c < chunks; c++) {
        const uint64_t rounding = flush_subnormals();
        real *restrict partial = hidden_gradient + (size_t)c * (t + 1) * K * LANES;
        memset(partial, 0, sizeof(real) * (t + 1) * K * LANES);
        double square = 0;
        real q[t + 1][N]; /* 2 kappa R, then g: row weights of the gradient */
        for (ptrdiff_t i = c * CHUNK; i < (c + 1) * CHUNK && i < tiles; i++) {
            real(*restrict w)[N] = (real(*)[N])(weights + i * K * N);
            const real(*restrict ws)[N] = (const real(*)[N])(start + i * K * N);
            real(*restrict m)[N] = (real(*)[N])(first + i * K * N);
            real(*restrict v)[N] = (real(*)[N])(second + i * K * N);
            for (int j = 0; j < t; j++) {
                real residual[N] = {0};
                for (int k = 0; k < K; k++) {
                    const real uk = u[j * K + k], ek = e[j * K + k];
#pragma omp simd
                    for (int r = 0; r < N; r++)
                        residual[r] += (w[k][r] - ws[k][r]) * uk + ws[k][r] * ek;
                }
                real sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int r = 0; r < N; r++) {
                    sum += residual[r] * residual[r];
                    q[j][r] = two_kappa * residual[r];
                }
                square += sum;
            }
            memcpy(q[t], g + i * N, sizeof q[t]);
            for (int j = 0; j <= t; j++)
                for (int k = 0; k < K; k++) {
                    real *restrict sums = partial + ((size_t)j * K + k) * LANES;
                    if (j == 0) {
                        prefetch(m[k]);
                        prefetch(v[k]);
                    }
                    for (int r = 0; r < N; r += LANES)
#pragma omp simd
                        for (int l = 0; l < LANES; l++)
                            sums[l] += q[j][r + l] * w[k][r + l];
                }
            for (int k = 0; k < K; k++) {
                real gradient[N] = {0};
                if (i + 1 < tiles) {
                    prefetch(w[K + k]);
                    if (t > 0)
                        prefetch(ws[K + k]);
                }
                for (int j = 0; j <= t; j++) {
                    const real uk = u[j * K + k];
#pragma omp simd
                    for (int r = 0; r < N; r++)
                        gradient[r] += q[j][r] * uk;
                }
#pragma omp simd
                for (int r = 0; r < N; r++) {
                    const real m_new = m[k][r] + (1 - beta1) * (gradient[r] - m[k][r]);
                    const real v_new = beta2 * v[k][r] + (1 - beta2) * gradient[r] * gradient[r];
                    m[k][r] = m_new;
                    v[k][r] = v_new;
                    w[k][r] -= rate * m_new / (ROOT(v_new) * inverse_root_correction + epsilon);
                }
            }
        }
        squares[c] = square;
        restore_rounding(rounding);
    }
}
