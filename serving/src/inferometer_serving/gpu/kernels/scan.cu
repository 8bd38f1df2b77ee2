// Inclusive prefix sums of segments of LENGTH elements that follow one another, in float32.
//
// Each lane holds four neighbouring elements of a row of 16, so that a tile is two runs of 128
// elements: the rows of quads 0 to 7, and once more.

constexpr int COUNT = 4;
constexpr bool IS_ALIGNED = LENGTH % COUNT == 0;

struct Four {
    Pair pair[2];
};

// Load elements [at, at + 4) of a segment, with zeros beyond its end.
template <bool WHOLE>
__device__ __forceinline__ Four load(const Element* segment, Index at) {
    Four found = {0u, 0u};
    if (WHOLE || (IS_ALIGNED && at < LENGTH)) {
        uint2 pairs = __ldcs(reinterpret_cast<const uint2*>(segment + at));
        found.pair[0] = pairs.x;
        found.pair[1] = pairs.y;
    } else if (!IS_ALIGNED) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const Index low = at + 2 * i;
            found.pair[i] = joined(low < LENGTH ? segment[low] : Element(0),
                                   low + 1 < LENGTH ? segment[low + 1] : Element(0));
        }
    }
    return found;
}

template <bool WHOLE>
__device__ __forceinline__ void store(float* segment, Index at, const float (&sums)[4]) {
    if (WHOLE || (IS_ALIGNED && at < LENGTH)) {
        __stcs(reinterpret_cast<float4*>(segment + at),
               make_float4(sums[0], sums[1], sums[2], sums[3]));
    } else if (!IS_ALIGNED) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (at + i < LENGTH) segment[at + i] = sums[i];
        }
    }
}

// U for the columns that a lane's elements have: lane t of a quad holds columns 4 t to 4 t + 3.
struct Upper {
    Pair pair[2][2];
    __device__ __forceinline__ explicit Upper(int lane) {
        const int quad = lane / 4, first = 4 * (lane % 4);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int column = 4 * (quad / 2) + 2 * j + quad % 2;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = first + 2 * i;
                pair[j][i] = (row <= column ? ONE_PAIR & 0xFFFFu : 0u) |
                             (row + 1 <= column ? ONE_PAIR & 0xFFFF0000u : 0u);
            }
        }
    }
};

// The prefix sums within the rows of a tile, four of each run, after what `before` holds for them.
struct Rows {
    float run[2][4];
    __device__ __forceinline__ Rows(
        const Four& first, const Four& second, const Upper& upper, const Sums& before) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            Sums d = before;
            multiply(d, first.pair[0], second.pair[0], first.pair[1], second.pair[1],
                     upper.pair[j][0], upper.pair[j][1]);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                run[0][2 * j + i] = d.c[i];
                run[1][2 * j + i] = d.c[2 + i];
            }
        }
    }
};

// Which rows of a tile are before a lane's own in the same segment, as masks of pairs of A: the
// strict lower triangle L. ROWS: how many rows a segment has.
template <int ROWS>
struct Before {
    Pair mask[4];
    __device__ __forceinline__ explicit Before(int lane) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + 8 * (i % 2), other = 2 * (lane % 4) + 8 * (i / 2);
            mask[i] = (is_before(other, row) ? 0xFFFFu : 0u) |
                      (is_before(other + 1, row) ? 0xFFFF0000u : 0u);
        }
    }
    static __device__ __forceinline__ bool is_before(int other, int row) {
        return other < row && other / ROWS == row / ROWS;
    }
};

// Return the sum of the rows before each row: the sums of rows, 1 x B, masked, x 1.
template <int ROWS>
__device__ __forceinline__ Sums sums_before(
    const Four& first, const Four& second, const Before<ROWS>& before) {
    Sums upper, lower, found;
    multiply(upper, ONE_PAIR, ONE_PAIR, ONE_PAIR, ONE_PAIR, first.pair[0], first.pair[1]);
    multiply(lower, ONE_PAIR, ONE_PAIR, ONE_PAIR, ONE_PAIR, second.pair[0], second.pair[1]);
    Split of_upper(upper.c[0], upper.c[1]), of_lower(lower.c[0], lower.c[1]);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        multiply_parts(found, of_upper.part[i] & before.mask[0], of_upper.part[i] & before.mask[1],
                       of_lower.part[i] & before.mask[2], of_lower.part[i] & before.mask[3],
                       ONE_PAIR_BF16, ONE_PAIR_BF16);
    }
    return found;
}

#if ALGORITHM == TILE
// 16 to 256, a divisor of 256: whole segments in each tile.
extern "C" __global__ void __launch_bounds__(WARPS* LANES) scan_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments) {
    constexpr int ROWS = LENGTH / 16;
    static_assert(LENGTH % 16 == 0 && AREA % LENGTH == 0, "segments fill tiles");
    const int lane = threadIdx.x % LANES;
    const Index warp = Index(blockIdx.x) * WARPS + threadIdx.x / LANES;
    const Index first = warp * (COARSENING * AREA), size = segments * LENGTH;
    const Upper upper(lane);
    const Before<ROWS> before(lane);
    Four runs[COARSENING][2];
#pragma unroll
    for (int c = 0; c < COARSENING; ++c) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Index at = first + c * AREA + half * (AREA / 2) + lane * COUNT;
            runs[c][half] = at < size ? load<true>(input, at) : Four{0u, 0u};
        }
    }
#pragma unroll
    for (int c = 0; c < COARSENING; ++c) {
        Sums earlier;
        if constexpr (ROWS > 1) earlier = sums_before<ROWS>(runs[c][0], runs[c][1], before);
        const Rows rows(runs[c][0], runs[c][1], upper, earlier);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Index at = first + c * AREA + half * (AREA / 2) + lane * COUNT;
            if (at < size) store<true>(output, at, rows.run[half]);
        }
    }
}
#endif

#if ALGORITHM == QUAD
// 16 N: a quad of lanes for each segment. S + A x U, with S = A x 1 + S for the next 16.
extern "C" __global__ void __launch_bounds__(WARPS* LANES) scan_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments) {
    constexpr Index STEPS = ceil_div(LENGTH, 16);
    constexpr bool WHOLE = LENGTH % (16 * DEPTH) == 0;
    const int lane = threadIdx.x % LANES, quad = lane / 4, thread = lane % 4;
    const Index warp = Index(blockIdx.x) * WARPS + threadIdx.x / LANES;
    const Index first = warp * (16 * COARSENING);
    if (first >= segments) return;
    const Upper upper(lane);
    Sums carried[COARSENING];
    for (Index step = 0; step < STEPS; step += DEPTH) {
        Four runs[COARSENING][DEPTH][2];
#pragma unroll
        for (int c = 0; c < COARSENING; ++c) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const Index segment = min(first + 16 * c + 8 * half + quad, segments - 1);
#pragma unroll
                for (int d = 0; d < DEPTH; ++d) {
                    runs[c][d][half] = load<WHOLE>(
                        input + segment * LENGTH, 16 * (step + d) + COUNT * thread);
                }
            }
        }
#pragma unroll
        for (int c = 0; c < COARSENING; ++c) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                const Four &one = runs[c][d][0], &two = runs[c][d][1];
                const Rows rows(one, two, upper, carried[c]);
                multiply(carried[c], one.pair[0], two.pair[0], one.pair[1], two.pair[1], ONE_PAIR,
                         ONE_PAIR);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const Index segment = first + 16 * c + 8 * half + quad;
                    if (segment < segments) {
                        store<WHOLE>(output + segment * LENGTH, 16 * (step + d) + COUNT * thread,
                                     rows.run[half]);
                    }
                }
            }
        }
    }
}
#endif

// DEPTH tiles that follow one another, in registers.
template <bool WHOLE>
struct Loaded {
    Four run[DEPTH][2];

    __device__ __forceinline__ Loaded(const Element* segment, Index from, int lane) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                run[d][half] = load<WHOLE>(segment, from + offset(d, half, lane));
            }
        }
    }

    __device__ __forceinline__ Four operator()(int d, int half) const { return run[d][half]; }

    static __device__ __forceinline__ int offset(int d, int half, int lane) {
        return d * AREA + half * (AREA / 2) + lane * COUNT;
    }
};

// Return the sum of all elements of a piece, in every lane: V = 1 x B + V, then V x 1.
template <typename Piece>
__device__ __forceinline__ float total_of(const Piece& piece) {
    Sums sums;
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Four run = piece(d, half);
            multiply(sums, ONE_PAIR, ONE_PAIR, ONE_PAIR, ONE_PAIR, run.pair[0], run.pair[1]);
        }
    }
    return quad_total(sums.c[0], sums.c[1]);
}

// Write the prefix sums of a piece, which start from `carried`. Return the last one.
template <bool WHOLE, typename Piece>
__device__ __forceinline__ float write(
    const Piece& piece, float* segment, Index from, int lane, const Upper& upper,
    const Before<16>& before, float carried) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        const Four first = piece(d, 0), second = piece(d, 1);
        Rows rows(first, second, upper, sums_before<16>(first, second, before));
        const float last = __shfl_sync(0xFFFFFFFFu, rows.run[1][3], LANES - 1);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 4; ++i) rows.run[half][i] += carried;
            store<WHOLE>(segment, from + Loaded<WHOLE>::offset(d, half, lane), rows.run[half]);
        }
        carried += last;
    }
    return carried;
}

#if ALGORITHM == WARP
// 256 and 256 N: a warp for each segment; the last element of a piece is added to the next.
extern "C" __global__ void __launch_bounds__(WARPS* LANES) scan_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments) {
    constexpr bool WHOLE = LENGTH % (AREA * DEPTH) == 0;
    const int lane = threadIdx.x % LANES;
    const Index segment = Index(blockIdx.x) * WARPS + threadIdx.x / LANES;
    if (segment >= segments) return;
    const Upper upper(lane);
    const Before<16> before(lane);
    float carried = 0.0f;
    for (Index from = 0; from < LENGTH; from += AREA * DEPTH) {
        const Loaded<WHOLE> piece(input + segment * LENGTH, from, lane);
        carried =
            write<WHOLE>(piece, output + segment * LENGTH, from, lane, upper, before, carried);
    }
}
#endif
