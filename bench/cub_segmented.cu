// CUB's segmented sum and scan, for comparison: 16-bit input, float32 sums and output. Segments have
// a length that is a power of two, so that offsets and keys take one shift. CUB with segments of one
// length and segmented scans (CCCL 3.1 and later) uses these, an older one offsets and keys.

#include <cstdint>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#if __has_include(<cub/device/device_segmented_scan.cuh>)
#include <cub/device/device_segmented_scan.cuh>
#define IS_NEW
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

struct Add {
    __host__ __device__ float operator()(float a, float b) const { return a + b; }
};

struct Offset {
    int shift;
    __host__ __device__ std::int64_t operator()(std::int64_t index) const { return index << shift; }
};

struct Key {
    int shift;
    __host__ __device__ std::int32_t operator()(std::int64_t index) const {
        return std::int32_t(index >> shift);
    }
};

template <typename Value>
int sum(const Value* input, float* output, std::int64_t segments, int shift, void* scratch,
        std::size_t* scratch_bytes, cudaStream_t stream) {
#ifdef IS_NEW
    return cub::DeviceSegmentedReduce::Reduce(
        scratch, *scratch_bytes, input, output, segments, 1 << shift, Add{}, 0.0f, stream);
#else
    auto offsets =
        thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), Offset{shift});
    return cub::DeviceSegmentedReduce::Reduce(
        scratch, *scratch_bytes, input, output, segments, offsets, offsets + 1, Add{}, 0.0f, stream);
#endif
}

template <typename Value>
int scan(const Value* input, float* output, std::int64_t segments, int shift, void* scratch,
         std::size_t* scratch_bytes, cudaStream_t stream) {
#ifdef IS_NEW
    auto offsets =
        thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), Offset{shift});
    return cub::DeviceSegmentedScan::InclusiveSegmentedScan(
        scratch, *scratch_bytes, input, output, offsets, offsets + 1, segments, Add{}, stream);
#else
    const std::int64_t size = segments << shift;
    auto keys =
        thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), Key{shift});
    return cub::DeviceScan::InclusiveScanByKey(scratch, *scratch_bytes, keys, input, output, Add{},
                                               size, cuda::std::equal_to<>{}, stream);
#endif
}

// Each returns CUDA's error code. Without scratch memory they only set `scratch_bytes`.
extern "C" int cub_sum(int is_bfloat16, const void* input, float* output, std::int64_t segments,
                       int shift, void* scratch, std::size_t* scratch_bytes, cudaStream_t stream) {
    return is_bfloat16
               ? sum(static_cast<const __nv_bfloat16*>(input), output, segments, shift, scratch,
                     scratch_bytes, stream)
               : sum(static_cast<const __half*>(input), output, segments, shift, scratch,
                     scratch_bytes, stream);
}

extern "C" int cub_scan(int is_bfloat16, const void* input, float* output, std::int64_t segments,
                        int shift, void* scratch, std::size_t* scratch_bytes, cudaStream_t stream) {
    return is_bfloat16
               ? scan(static_cast<const __nv_bfloat16*>(input), output, segments, shift, scratch,
                      scratch_bytes, stream)
               : scan(static_cast<const __half*>(input), output, segments, shift, scratch,
                      scratch_bytes, stream);
}
