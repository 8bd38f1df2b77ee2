// A block for each part of a segment, in one pass: a part publishes its sum, then looks back over
// the parts before it until one has published the sum of all up to it (Merrill and Garland, 2016).
//
// `states` holds a word for each part, and `ticket` counts parts that started. Both start at 0 and
// serve all launches: one counts tickets from `first_ticket`, and knows its own words by `parity`,
// which is 1 in the first launch, 0 in the second, and so on.
constexpr Index PART = Index(WARPS) * AREA * DEPTH;
constexpr Index PARTS = ceil_div(LENGTH, PART);
constexpr bool WHOLE = LENGTH % PART == 0;
constexpr Index OF_PART = 1ull << 32, OF_ALL = 2ull << 32;
constexpr Index GROUP = 256;
static_assert(WARPS <= 16, "a row of A holds the warps' totals");

// Where a block works. The parts that start first are those of many segments, so that few blocks
// wait for one another; these segments are neighbours, so that few pages are in use at a time.
struct Place {
    Index segment, part;
    __device__ __forceinline__ Place(Index number, Index segments) {
        const Index first = number / (GROUP * PARTS) * GROUP;
        const unsigned within = unsigned(number % (GROUP * PARTS));
        const unsigned size = unsigned(min(GROUP, segments - first));
        segment = first + (size == GROUP ? within % GROUP : within % size);
        part = size == GROUP ? within / GROUP : within / size;
    }
};

__device__ __forceinline__ void publish(Index* state, Index kind, Index parity, float sum) {
    *reinterpret_cast<volatile Index*>(state) = parity << 34 | kind | __float_as_uint(sum);
}

// Return the sum of all parts before `part`, in every lane of the warp.
__device__ __forceinline__ float look_back(
    const Index* states, Index part, Index parity, int lane) {
    float found = 0.0f;
    for (long long from = (long long)(part)-1;; from -= LANES) {
        const long long at = from - lane;
        Index state = parity << 34 | OF_ALL;
        if (at >= 0) {
            do {
                state = *reinterpret_cast<const volatile Index*>(states + at);
            } while (state >> 34 != parity);
        }
        const unsigned ended = __ballot_sync(0xFFFFFFFFu, (state & OF_ALL) != 0);
        const int last = ended ? __ffs(ended) - 1 : LANES - 1;
        found += warp_total(lane <= last ? __uint_as_float(unsigned(state)) : 0.0f);
        if (ended) return found;
    }
}

// Return the sum of the warps' totals before `warp`, in every lane: a row of A, masked, x 1.
__device__ __forceinline__ float warps_before(const float* totals, int warp, int lane) {
    float some[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int other = 2 * (lane % 4) + i % 2 + 8 * (i / 2);
        some[i] = other < warp ? totals[other] : 0.0f;
    }
    return quad_total(some[0], some[1], some[2], some[3]);
}

extern "C" __global__ void __launch_bounds__(WARPS* LANES) scan_segments(
    const Element* __restrict__ input, float* __restrict__ output, Index segments, Index* states,
    Index* ticket, Index first_ticket, Index parity) {
    __shared__ float totals[16];
    __shared__ float carried;
    __shared__ Index number;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    if (PARTS > 1) {
        // Parts start in the order of their tickets: those before this one have started.
        if (threadIdx.x == 0) number = atomicAdd(ticket, 1ull) - first_ticket;
        __syncthreads();
    }
    const Place place(PARTS > 1 ? number : blockIdx.x, segments);
    const Index from = place.part * PART + Index(warp) * AREA * DEPTH;
    const Loaded<WHOLE> piece(input + place.segment * LENGTH, from, lane);
    const float own = total_of(piece);
    if (lane == 0) totals[warp] = own;
    __syncthreads();
    float sum = warps_before(totals, warp, lane);
    if (PARTS > 1) {
        if (warp == WARPS - 1) {
            Index* here = states + place.segment * PARTS;
            const float total = sum + own;
            float earlier = 0.0f;
            if (place.part > 0) {
                if (lane == 0) publish(here + place.part, OF_PART, parity, total);
                earlier = look_back(here, place.part, parity, lane);
            }
            if (lane == 0) {
                publish(here + place.part, OF_ALL, parity, earlier + total);
                carried = earlier;
            }
        }
        __syncthreads();
        sum += carried;
    }
    write<WHOLE>(piece, output + place.segment * LENGTH, from, lane, Upper(lane), Before<16>(lane),
                 sum);
}
