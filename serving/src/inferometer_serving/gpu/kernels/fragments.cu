// Fragments of matrix units: products of 16 x 16 by 16 x 8 (mma.sync, from compute capability 8.0).
//
// Defined by the host: OPERAND ("f16" or "bf16"), ONE_PAIR (two ones of that type), LENGTH (elements
// of a segment), WARPS (of a block), COARSENING and DEPTH.
//
// Lane 4 q + t of a warp is thread t of quad q. It holds
//   A (16 x 16): rows q and q + 8, columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9;
//   B (16 x 8):  rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of column q;
//   C (16 x 8):  rows q and q + 8, columns 2 t, 2 t + 1.
// A sum does not depend on the order of its operands, so a quad may load the elements of a row of A,
// or of a column of B, in any order: each lane loads neighbouring ones.

typedef unsigned short Element;
typedef unsigned int Pair;
typedef unsigned long long Index;

constexpr int LANES = 32;
constexpr int AREA = 256;
constexpr Pair ONE_PAIR_BF16 = 0x3F803F80u;

__device__ constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

struct Sums {
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
};

#define MULTIPLY(TYPE)                                                                          \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                  \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                  \
        : "+f"(d.c[0]), "+f"(d.c[1]), "+f"(d.c[2]), "+f"(d.c[3])                                \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

// d += A x B for elements of the input.
__device__ __forceinline__ void multiply(
    Sums& d, Pair a0, Pair a1, Pair a2, Pair a3, Pair b0, Pair b1) {
    MULTIPLY(OPERAND);
}

// d += A x B for parts of sums.
__device__ __forceinline__ void multiply_parts(
    Sums& d, Pair a0, Pair a1, Pair a2, Pair a3, Pair b0, Pair b1) {
    MULTIPLY("bf16");
}

// Return the upper halves of two floats: bfloat16, cut off.
__device__ __forceinline__ Pair upper_halves(float low, float high) {
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

// Return what the upper half of a float leaves; 0 if it is not finite.
__device__ __forceinline__ float rest(float value) {
    unsigned bits = __float_as_uint(value);
    float left = value - __uint_as_float(bits & 0xFFFF0000u);
    return (bits & 0x7F800000u) == 0x7F800000u ? 0.0f : left;
}

// Two floats in three bfloat16 parts, which hold all bits of floats above 2^-117.
struct Split {
    Pair part[3];
    __device__ __forceinline__ Split(float low, float high) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            part[i] = upper_halves(low, high);
            low = rest(low);
            high = rest(high);
        }
    }
};

// Return the sum of `low` and `high` over the threads of a quad (each quad holds the same), in
// every lane. `more_low` and `more_high` join the sum.
__device__ __forceinline__ float quad_total(
    float low, float high, float more_low = 0.0f, float more_high = 0.0f) {
    Split first(low, high), second(more_low, more_high);
    Sums d;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        multiply_parts(d, first.part[i], first.part[i], second.part[i], second.part[i],
                       ONE_PAIR_BF16, ONE_PAIR_BF16);
    }
    return d.c[0];
}

// Return the sum of four floats of each lane, in every lane: 1 x B, then its transpose x 1.
__device__ __forceinline__ float warp_total(float a, float b = 0.0f, float c = 0.0f, float d = 0.0f) {
    Split first(a, b), second(c, d);
    Sums columns;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        multiply_parts(columns, ONE_PAIR_BF16, ONE_PAIR_BF16, ONE_PAIR_BF16, ONE_PAIR_BF16,
                       first.part[i], second.part[i]);
    }
    return quad_total(columns.c[0], columns.c[1]);
}

// Return two elements as a pair.
__device__ __forceinline__ Pair joined(Element low, Element high) {
    return Pair(low) | (Pair(high) << 16);
}
