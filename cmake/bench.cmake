# SPDX-License-Identifier: Apache-2.0
# Benchmarks: built only when asked for by name, never run by the tests.
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
foreach(source IN LISTS bench_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(bench_${name} EXCLUDE_FROM_ALL ${source})
    target_include_directories(bench_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_compile_definitions(bench_${name} PRIVATE _GNU_SOURCE)
    target_link_libraries(bench_${name} PRIVATE isochron_static)
endforeach()

# Kernels beside oneDNN's: needs its headers.
find_library(ISO_DNNL dnnl)
file(GLOB kernel_bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/kernels/*.c)
if(ISO_DNNL AND kernel_bench_sources)
    add_executable(bench_kernels EXCLUDE_FROM_ALL ${kernel_bench_sources})
    target_include_directories(bench_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_compile_definitions(bench_kernels PRIVATE _GNU_SOURCE)
    target_link_libraries(bench_kernels PRIVATE isochron_static ${ISO_DNNL})
endif()
