// Sums of segments of LENGTH elements that follow one another. The input starts at a multiple of 16
// bytes. Each sum is multiplied by `scale`.

template <int COUNT>
struct Vector {
    Pair pair[COUNT / 2];
};

__device__ __forceinline__ void load_whole(Vector<8>& into, const Element* from) {
    uint4 found = __ldcs(reinterpret_cast<const uint4*>(from));
    into.pair[0] = found.x;
    into.pair[1] = found.y;
    into.pair[2] = found.z;
    into.pair[3] = found.w;
}

__device__ __forceinline__ void load_whole(Vector<4>& into, const Element* from) {
    uint2 found = __ldcs(reinterpret_cast<const uint2*>(from));
    into.pair[0] = found.x;
    into.pair[1] = found.y;
}

// Load elements [at, at + COUNT), with zeros for those outside [start, stop). `at` is a multiple of
// COUNT, so that a vector that starts within the input can end outside of it.
template <int COUNT>
__device__ __forceinline__ void load_part(
    Vector<COUNT>& into, const Element* input, Index at, Index start, Index stop) {
    if (at >= start && at + COUNT <= stop) {
        load_whole(into, input + at);
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        Index low = at + i, high = at + i + 1;
        into.pair[i / 2] = joined(low >= start && low < stop ? input[low] : Element(0),
                                  high >= start && high < stop ? input[high] : Element(0));
    }
}

// Part `index` of a segment: COUNT elements; all lanes of a group of GROUP load parts that follow
// one another. WHOLE: no part reaches beyond its segment.
template <int COUNT, bool WHOLE>
__device__ __forceinline__ void load(
    Vector<COUNT>& into, const Element* input, Index start, Index stop, Index index) {
    if constexpr (WHOLE) {
        load_whole(into, input + start + index * COUNT);
    } else {
        load_part(into, input, (start / COUNT + index) * COUNT, start, stop);
    }
}

// Return how many steps a group of lanes needs for a segment that starts at any element.
__device__ constexpr Index steps_of(Index length, int count, int lanes) {
    return ceil_div(length + (length % count ? count - 1 : 0), Index(count) * lanes);
}

#if ALGORITHM == QUAD
// 16 and 16 N: a quad of lanes for each segment. V = A x 1 + V, with one segment in each row of A.
constexpr int COUNT = LENGTH < 32 ? 4 : 8;
constexpr bool WHOLE = LENGTH % (4 * COUNT) == 0;
constexpr Index STEPS = steps_of(LENGTH, COUNT, 4);

extern "C" __global__ void __launch_bounds__(WARPS* LANES) reduce_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments, float scale) {
    const int lane = threadIdx.x % LANES, quad = lane / 4, thread = lane % 4;
    const Index warp = Index(blockIdx.x) * WARPS + threadIdx.x / LANES;
    const Index first = warp * (16 * COARSENING);
    if (first >= segments) return;
    Sums sums[COARSENING];
    for (Index step = 0; step < STEPS; step += DEPTH) {
        Vector<COUNT> rows[COARSENING][DEPTH][2];
#pragma unroll
        for (int c = 0; c < COARSENING; ++c) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const Index segment = min(first + 16 * c + 8 * half + quad, segments - 1);
                const Index start = segment * LENGTH, stop = start + LENGTH;
#pragma unroll
                for (int d = 0; d < DEPTH; ++d) {
                    if (STEPS % DEPTH == 0 || step + d < STEPS) {
                        load<COUNT, WHOLE>(
                            rows[c][d][half], input, start, stop, (step + d) * 4 + thread);
                    } else {
                        rows[c][d][half] = {};
                    }
                }
            }
        }
#pragma unroll
        for (int c = 0; c < COARSENING; ++c) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
                for (int i = 0; i < COUNT / 2; i += 2) {
                    const Pair *upper = rows[c][d][0].pair, *lower = rows[c][d][1].pair;
                    multiply(sums[c], upper[i], lower[i], upper[i + 1], lower[i + 1], ONE_PAIR,
                             ONE_PAIR);
                }
            }
        }
    }
    // All four threads of a quad hold its sums: each writes another group's.
#pragma unroll
    for (int from = 0; from < COARSENING; from += 4) {
        float upper = sums[from].c[0], lower = sums[from].c[2];
#pragma unroll
        for (int c = 1; c < 4; ++c) {
            if (from + c < COARSENING && thread == c) {
                upper = sums[from + c].c[0];
                lower = sums[from + c].c[2];
            }
        }
        const Index segment = first + 16 * (from + thread) + quad;
        if (from + thread < COARSENING) {
            if (segment < segments) __stcs(output + segment, upper * scale);
            if (segment + 8 < segments) __stcs(output + segment + 8, lower * scale);
        }
    }
}
#endif

// Add a vector of each lane to the sums of the eight quads: V = 1 x B + V.
__device__ __forceinline__ void add_columns(Sums& sums, const Vector<8>& vector) {
    multiply(sums, ONE_PAIR, ONE_PAIR, ONE_PAIR, ONE_PAIR, vector.pair[0], vector.pair[1]);
    multiply(sums, ONE_PAIR, ONE_PAIR, ONE_PAIR, ONE_PAIR, vector.pair[2], vector.pair[3]);
}

#if ALGORITHM == WARP
// 256 and 256 N: a warp for each segment. V = 1 x B + V, and one V x 1 at the end.
constexpr bool WHOLE = LENGTH % AREA == 0;
constexpr Index STEPS = steps_of(LENGTH, 8, LANES);

extern "C" __global__ void __launch_bounds__(WARPS* LANES) reduce_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments, float scale) {
    const int lane = threadIdx.x % LANES;
    const Index warp = Index(blockIdx.x) * WARPS + threadIdx.x / LANES;
    const Index first = warp * COARSENING;
    if (first >= segments) return;
    Sums sums[COARSENING];
    for (Index step = 0; step < STEPS; step += DEPTH) {
        Vector<8> vectors[COARSENING][DEPTH];
#pragma unroll
        for (int c = 0; c < COARSENING; ++c) {
            const Index start = min(first + c, segments - 1) * LENGTH, stop = start + LENGTH;
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                if (STEPS % DEPTH == 0 || step + d < STEPS) {
                    load<8, WHOLE>(
                        vectors[c][d], input, start, stop, (step + d) * LANES + lane);
                } else {
                    vectors[c][d] = {};
                }
            }
        }
#pragma unroll
        for (int c = 0; c < COARSENING; ++c) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) add_columns(sums[c], vectors[c][d]);
        }
    }
    float mine = 0.0f;
#pragma unroll
    for (int c = 0; c < COARSENING; ++c) {
        const float total = quad_total(sums[c].c[0], sums[c].c[1]);
        if (lane == c) mine = total;
    }
    if (lane < COARSENING && first + lane < segments) __stcs(output + first + lane, mine * scale);
}
#endif

#if ALGORITHM == BLOCK
// A block for each part of a segment. Its warps' sums meet in shared memory and are reduced by a
// tile of their own. With PARTS > 1, `output` takes the parts' sums, and `reduce_parts` ends it.
constexpr Index PART = Index(WARPS) * AREA * DEPTH * COARSENING;
constexpr Index PARTS = ceil_div(LENGTH, PART);
constexpr bool WHOLE = LENGTH % PART == 0;

extern "C" __global__ void __launch_bounds__(WARPS* LANES) reduce_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments, float scale) {
    __shared__ float partial[WARPS * 8];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const Index segment = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
    const Index start = segment * LENGTH + part * PART;
    const Index stop = min(start + PART, (segment + 1) * LENGTH);
    constexpr Index STEPS = steps_of(PART, 8, LANES * WARPS) + (LENGTH % 8 ? 1 : 0);
    Sums sums[2];
    for (Index step = 0; step < STEPS; step += DEPTH) {
        Vector<8> vectors[DEPTH];
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const Index index = (step + d) * (WARPS * LANES) + threadIdx.x;
            load<8, WHOLE>(vectors[d], input, start, stop, index);
        }
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) add_columns(sums[d % 2], vectors[d]);
    }
    if (lane < 4) {
        partial[warp * 8 + 2 * lane] = sums[0].c[0] + sums[1].c[0];
        partial[warp * 8 + 2 * lane + 1] = sums[0].c[1] + sums[1].c[1];
    }
    __syncthreads();
    if (warp) return;
    float some[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        some[i] = i * LANES + lane < WARPS * 8 ? partial[i * LANES + lane] : 0.0f;
    }
    const float total = warp_total(some[0], some[1], some[2], some[3]);
    if (lane == 0) output[blockIdx.x] = PARTS > 1 ? total : total * scale;
}

// The grid level's second kernel: a warp for the parts of each segment.
extern "C" __global__ void __launch_bounds__(LANES) reduce_parts(
    const float* __restrict__ partial, float* __restrict__ output, float scale) {
    const int lane = threadIdx.x;
    float total = 0.0f;
    for (Index from = 0; from < PARTS; from += 4 * LANES) {
        float some[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Index at = from + i * LANES + lane;
            some[i] = at < PARTS ? partial[blockIdx.x * PARTS + at] : 0.0f;
        }
        total += warp_total(some[0], some[1], some[2], some[3]);
    }
    if (lane == 0) output[blockIdx.x] = total * scale;
}
#endif
