# SPDX-License-Identifier: Apache-2.0
# Benchmarks: built only when asked for by name, never run by the tests. With oneDNN's headers its kernels stand beside ours.
if(NOT EXISTS ${CMAKE_SOURCE_DIR}/bench/kernels)  # a copy of the sources alone: bench/float_sums.py
    return()
endif()
find_library(ISO_DNNL dnnl)
set(kernel_bench_sources ${CMAKE_SOURCE_DIR}/bench/kernels/bench_kernels.c)
if(ISO_DNNL)
    list(APPEND kernel_bench_sources ${CMAKE_SOURCE_DIR}/bench/kernels/bench_onednn.c)
endif()
add_executable(bench_kernels EXCLUDE_FROM_ALL ${kernel_bench_sources})
target_include_directories(bench_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(bench_kernels PRIVATE _GNU_SOURCE $<$<BOOL:${ISO_DNNL}>:ISO_BENCH_ONEDNN=1>)
target_link_libraries(bench_kernels PRIVATE isochron_static $<$<BOOL:${ISO_DNNL}>:${ISO_DNNL}>)
add_executable(bench_codec EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/codec/bench_codec.c)
target_include_directories(bench_codec PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(bench_codec PRIVATE _GNU_SOURCE)
target_link_libraries(bench_codec PRIVATE isochron_core_static)
